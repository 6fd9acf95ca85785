#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "target/node/node.h"

namespace tarn::target {

/// A call that may be let go: a drive that hangs cannot be interrupted, so the call then goes on as
/// one of TargetNode::aside, and its result is dropped. Its work must own all that it needs. Of one
/// event loop.
template <class T>
class LetGo {
 public:
  explicit LetGo(const asio::any_io_executor& executor) : call_(std::make_shared<Call>(executor)) {}

  /// unavailable while the target ends.
  Status start(TargetNode& node, Task<Result<T>> work) {
    if (node.aside.spawn(call_->bell.get_executor(), "call of a drive",
                         run(call_, std::move(work))))
      return {};
    return fail(Errc::unavailable, "this target is about to end");
  }
  [[nodiscard]] bool ended() const { return call_->result.has_value(); }
  /// Waits until it has ended, no longer than `time`.
  Task<void> wait(std::chrono::steady_clock::duration time) {
    call_->bell.expires_after(time);
    if (!ended()) (void)co_await call_->bell.async_wait(kTuple);
  }
  /// After ended().
  [[nodiscard]] Result<T> take() { return std::move(*call_->result); }

 private:
  struct Call {
    explicit Call(const asio::any_io_executor& executor) : bell(executor) {}
    asio::steady_timer bell;
    std::optional<Result<T>> result;
  };
  static Task<void> run(std::shared_ptr<Call> call, Task<Result<T>> work) {
    call->result = co_await std::move(work);
    call->bell.cancel();
  }

  std::shared_ptr<Call> call_;
};

/// The result of `work`, or timeout when it takes longer than `patience` (LetGo). unavailable while
/// the target ends. On the caller's event loop.
template <class T>
Task<Result<T>> in_time(TargetNode& node, Task<Result<T>> work,
                        std::chrono::steady_clock::duration patience) {
  LetGo<T> call(co_await asio::this_coro::executor);
  CO_TRY_OK(call.start(node, std::move(work)));
  co_await call.wait(patience);
  if (!call.ended()) co_return fail(Errc::timeout, "that takes too long here");
  co_return call.take();
}

}  // namespace tarn::target
