#pragma once

#include "target/node/in_time.h"

namespace tarn::target {

/// ok unless a drive of this target hangs: a call that hangs may hold a lock for which work on
/// another drive waits.
inline Status check_none_hangs(const TargetNode& node) {
  for (const auto& drive : node.store.drives())
    if (drive->hangs()) return drive->usable();
  return {};
}

/// The result of `work` on `drive` (null: on all of them), or the reason why that drive is out of
/// service. Then `work` goes on by itself and must own all that it needs (LetGo). While another
/// drive hangs, work that takes longer than a second is abandoned as well. unavailable while the
/// target ends. On the caller's event loop.
template <class T>
Task<Result<T>> unless_hung(TargetNode& node, std::shared_ptr<Drive> drive, Task<Result<T>> work) {
  constexpr std::chrono::milliseconds kLookEvery{250};
  constexpr std::chrono::seconds kPatience{1};
  LetGo<T> call(co_await asio::this_coro::executor);
  CO_TRY_OK(call.start(node, std::move(work)));
  const auto begun = std::chrono::steady_clock::now();
  while (!call.ended()) {
    if (drive != nullptr) CO_TRY_OK(drive->usable());
    if (std::chrono::steady_clock::now() > begun + kPatience) CO_TRY_OK(check_none_hangs(node));
    co_await call.wait(kLookEvery);
  }
  co_return call.take();
}

}  // namespace tarn::target
