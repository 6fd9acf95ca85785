#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <utility>
#include <variant>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/gather.h"
#include "target/node/moves.h"
#include "target/node/wait_reasons.h"

namespace tarn::target {

/// Limits and signals that a walk obeys before each block that it moves. For the walk's loop.
struct Pace {
  MoveLimits& limits;
  const Moves::Walk& walk;
  Clock& clock;
  std::stop_token stop;

  /// cancelled when it was asked to stop, conflict when another walk takes over.
  [[nodiscard]] Status go_on() const;
  /// Waits until `bytes` may pass. Errors as go_on().
  [[nodiscard]] Task<Status> pass(std::uint64_t bytes) const;
  /// Returns when go_on() fails, with its error.
  [[nodiscard]] Task<Status> until_ended() const;
};

/// Time that work that wants to move `bytes` now waits before it asks again; zero: they may pass
/// and are counted. It passes under `ceiling` while no client waits for a drive (`foreground`), and
/// up to `floor` in any case (of which 0 is nothing). Both count whatever passed, so it never takes
/// more than the greater of the two.
[[nodiscard]] std::chrono::nanoseconds wait_between(RateLimiter& floor, RateLimiter& ceiling,
                                                    std::uint64_t bytes, BootTime now,
                                                    bool foreground);
/// Time that a rebuild waits, and its reason.
struct RebuildWait {
  std::chrono::nanoseconds time{};
  HeldBy by = HeldBy::nothing;  ///< unless `time` is zero
};
/// The same for a rebuild: under the limit of all moves, and up to MoveLimits::rebuild_min in any
/// case, since what is lost twice is lost for good. Never above MoveLimits::rebuild_max.
[[nodiscard]] RebuildWait rebuild_wait(MoveLimits& limits, std::uint64_t bytes, BootTime now,
                                       bool foreground);
/// Bounds of what rebuild_wait() lets pass, in bytes a second.
struct RebuildBounds {
  std::uint64_t least = 0;  ///< in any case; 0: nothing
  std::uint64_t most = 0;   ///< 0: there is no limit
};
[[nodiscard]] RebuildBounds rebuild_bounds(const MoveLimits& limits);

/// `work`, a call to another node, which is abandoned as soon as go_on() fails: a process that
/// stands still holds up the walk for no longer than its lease.
template <class T>
Task<Result<T>> while_walking(const Pace& pace, Task<Result<T>> work) {
  auto first = co_await first_of(std::move(work), pace.until_ended());
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  co_return fail(std::get<1>(first).error());
}

}  // namespace tarn::target
