#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "target/node.h"

namespace tarn::target {

/// What `work` gives, or timeout when it takes longer than `patience`: then it goes on by itself,
/// as one of TargetNode::aside, since a drive that hangs cannot be interrupted, and what it gives
/// is let go. So it must own all that it needs. unavailable while the target ends. On the caller's
/// event loop.
template <class T>
Task<Result<T>> in_time(TargetNode& node, Task<Result<T>> work,
                        std::chrono::steady_clock::duration patience) {
  struct Call {
    explicit Call(const asio::any_io_executor& executor) : bell(executor) {}
    asio::steady_timer bell;
    std::optional<Result<T>> result;
  };
  const auto executor = co_await asio::this_coro::executor;
  const auto call = std::make_shared<Call>(executor);
  call->bell.expires_after(patience);
  const auto run = [](std::shared_ptr<Call> its, Task<Result<T>> its_work) -> Task<void> {
    its->result = co_await std::move(its_work);
    its->bell.cancel();
  };
  if (!node.aside.spawn(executor, run(call, std::move(work))))
    co_return fail(Errc::unavailable, "this target is about to end");
  if (!call->result) co_await call->bell.async_wait(asio::as_tuple(asio::use_awaitable));
  if (!call->result) co_return fail(Errc::timeout, "that takes too long here");
  co_return std::move(*call->result);
}

}  // namespace tarn::target
