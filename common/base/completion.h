#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include "common/base/async.h"

namespace tarn {

/// Waits for something that another thread does. `start` is called at once, on the caller's loop,
/// with a copyable callable `done(T)`; that is to be called once with the result, from any thread.
/// The caller resumes on its own executor, whose loop is kept alive meanwhile. `done` must be
/// called: dropping it would leave the caller waiting for ever. Not cancellable.
template <class T, class Start>
Task<T> await_completion(Start start) {
  return asio::async_initiate<const asio::use_awaitable_t<>&, void(T)>(
      // By value, moved here: once `done` is called, the frame that held it may be gone.
      // NOLINTNEXTLINE(performance-unnecessary-value-param)
      [](auto handler, Start begin) {
        using Handler = std::decay_t<decltype(handler)>;
        struct Pending {
          explicit Pending(Handler h)
              : work(asio::make_work_guard(asio::get_associated_executor(h))),
                handler(std::move(h)) {}
          asio::executor_work_guard<asio::associated_executor_t<Handler>> work;
          Handler handler;
        };
        auto pending = std::make_shared<Pending>(std::move(handler));
        begin([pending = std::move(pending)](T value) {
          // All of it goes to the loop: once that runs it may end, while `done` still lives here.
          auto work = std::move(pending->work);
          const auto executor = work.get_executor();
          asio::post(executor, [work = std::move(work), handler = std::move(pending->handler),
                                value = std::move(value)]() mutable {
            auto resume = std::move(handler);
            work.reset();
            std::move(resume)(std::move(value));
          });
        });
      },
      asio::use_awaitable, std::move(start));
}

}  // namespace tarn
