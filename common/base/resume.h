#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>

#include "common/base/async.h"

namespace tarn {

/// Suspends the caller until the function that is passed to `start` is called: copyable, without
/// arguments, to be called once, from any thread. The caller resumes on its own executor, never
/// within that call. Not cancellable.
template <class Start>
Task<void> suspend_until_called(Start start) {
  auto executor = co_await asio::this_coro::executor;
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(
      // By value, moved here: once that function is called, the frame that held it may be gone.
      // NOLINTNEXTLINE(performance-unnecessary-value-param)
      [executor](auto handler, Start its_start) {
        // Shared: std::function wants to be copied, a handler can only be moved.
        auto shared = std::make_shared<decltype(handler)>(std::move(handler));
        its_start([executor, shared] {
          asio::post(executor, [own = std::move(*shared)]() mutable { own(); });
        });
      },
      asio::use_awaitable, std::move(start));
}

/// True if the caller's coroutine has been asked to end.
inline Task<bool> is_cancelled() {
  const auto state = co_await asio::this_coro::cancellation_state;
  co_return state.cancelled() != asio::cancellation_type::none;
}

/// Runs `work` with throw_if_cancelled() off, so that it sees a cancellation as errors of its
/// awaits, and restores the caller's setting. Asio has one setting for a task and all that it
/// awaits: without this a task that awaited such work once would not end by a cancellation.
template <class T>
Task<T> cancellation_as_value(Task<T> work) {
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  std::optional<T> result;
  std::exception_ptr problem;
  try {
    result.emplace(co_await std::move(work));
  } catch (...) {
    problem = std::current_exception();
  }
  co_await asio::this_coro::throw_if_cancelled(throws);
  if (problem) std::rethrow_exception(problem);
  co_return std::move(*result);
}

}  // namespace tarn
