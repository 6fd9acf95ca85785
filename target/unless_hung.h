#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "target/node.h"

namespace tarn::target {

/// ok unless a drive of this target hangs: a call that hangs may hold a lock for which work on
/// another drive waits.
inline Status check_none_hangs(const TargetNode& node) {
  for (const auto& drive : node.store.drives())
    if (drive->hangs()) return drive->usable();
  return {};
}

/// The result of `work` on `drive`, or the reason why that drive is out of service. A call that has
/// begun on a drive that hangs cannot be interrupted: it goes on as one of TargetNode::aside, and
/// its result is let go. So `work` must own all that it needs. While another drive hangs, work that
/// takes longer than a second is given up as well. unavailable while the target ends. On the
/// caller's event loop.
template <class T>
Task<Result<T>> unless_hung(TargetNode& node, std::shared_ptr<Drive> drive, Task<Result<T>> work) {
  constexpr std::chrono::milliseconds kLookEvery{250};
  constexpr std::chrono::seconds kPatience{1};
  struct Call {
    explicit Call(const asio::any_io_executor& executor) : bell(executor) {}
    asio::steady_timer bell;
    std::optional<Result<T>> result;
  };
  const auto executor = co_await asio::this_coro::executor;
  const auto call = std::make_shared<Call>(executor);
  const auto run = [](std::shared_ptr<Call> its, Task<Result<T>> its_work) -> Task<void> {
    its->result = co_await std::move(its_work);
    its->bell.cancel();
  };
  if (!node.aside.spawn(executor, run(call, std::move(work))))
    co_return fail(Errc::unavailable, "this target is about to end");
  const auto begun = std::chrono::steady_clock::now();
  while (!call->result) {
    CO_TRY_OK(drive->usable());
    if (std::chrono::steady_clock::now() > begun + kPatience) CO_TRY_OK(check_none_hangs(node));
    call->bell.expires_after(kLookEvery);
    (void)co_await call->bell.async_wait(kTuple);
  }
  co_return std::move(*call->result);
}

}  // namespace tarn::target
