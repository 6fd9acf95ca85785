#include "target/node/move_pace.h"

#include <algorithm>

#include "common/base/pause.h"

namespace tarn::target {
namespace {

/// A limit that was raised meanwhile is not waited for longer.
constexpr std::chrono::nanoseconds kMovePaceLookAgain = std::chrono::milliseconds(100);

}  // namespace

std::chrono::nanoseconds wait_between(RateLimiter& floor, RateLimiter& ceiling, std::uint64_t bytes,
                                      BootTime now, bool foreground) {
  constexpr std::chrono::nanoseconds kZero{0};
  std::chrono::nanoseconds wait = kMovePaceLookAgain;
  if (!foreground) wait = ceiling.take(bytes, now);
  if (wait == kZero) {
    floor.charge(bytes);
    return kZero;
  }
  if (floor.get() == 0) return std::min(wait, kMovePaceLookAgain);
  const auto until_floor = floor.take(bytes, now);
  if (until_floor == kZero) ceiling.charge(bytes);
  return std::min({wait, until_floor, kMovePaceLookAgain});
}

RebuildWait rebuild_wait(MoveLimits& limits, std::uint64_t bytes, BootTime now, bool foreground) {
  const auto until_max = limits.rebuild_max.wait(now);
  if (until_max != std::chrono::nanoseconds::zero())
    return {std::min(until_max, kMovePaceLookAgain), HeldBy::rebuild_max};
  const auto wait = wait_between(limits.rebuild_min, limits.rate, bytes, now, foreground);
  if (wait != std::chrono::nanoseconds::zero())
    return {wait, foreground ? HeldBy::clients : HeldBy::all_moves};
  limits.rebuild_max.spend(bytes);
  return {};
}

RebuildBounds rebuild_bounds(const MoveLimits& limits) {
  const std::uint64_t most = limits.rebuild_max.get();
  const std::uint64_t all = limits.rate.get();
  RebuildBounds out;
  out.least = limits.rebuild_min.get();
  if (most != 0) out.least = std::min(out.least, most);
  out.most = most;
  if (all != 0) {
    const std::uint64_t with_least = std::max(all, out.least);
    out.most = most == 0 ? with_least : std::min(most, with_least);
  }
  return out;
}

Status Pace::go_on() const {
  if (stop.stop_requested()) return fail(Errc::cancelled, "it was told to stop");
  if (walk.superseded()) return fail(Errc::conflict, "a newer map or another walk takes over");
  return {};
}

Task<Status> Pace::pass(std::uint64_t bytes) const {
  while (true) {
    CO_TRY_OK(go_on());
    const auto wait = limits.rate.take(bytes, clock.boot_time());
    if (wait == std::chrono::nanoseconds::zero()) co_return Status();
    co_await pause(std::min(wait, kMovePaceLookAgain));
  }
}

Task<Status> Pace::until_ended() const {
  while (true) {
    CO_TRY_OK(go_on());
    co_await pause(kMovePaceLookAgain);
  }
}

}  // namespace tarn::target
