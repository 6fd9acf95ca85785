#include "target/move_pace.h"

#include <algorithm>

#include <boost/asio/steady_timer.hpp>

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

std::chrono::nanoseconds rebuild_wait(MoveLimits& limits, std::uint64_t bytes, BootTime now,
                                      bool foreground) {
  return wait_between(limits.floor, limits.rate, bytes, now, foreground);
}

Status Pace::go_on() const {
  if (stop.stop_requested()) return fail(Errc::cancelled, "it was told to stop");
  if (walk.superseded()) return fail(Errc::conflict, "a newer map or another walk takes over");
  return {};
}

Task<Status> Pace::pass(std::uint64_t bytes) const {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (true) {
    CO_TRY_OK(go_on());
    const auto wait = limits.rate.take(bytes, clock.boot_time());
    if (wait == std::chrono::nanoseconds::zero()) co_return Status();
    timer.expires_after(std::min(wait, kMovePaceLookAgain));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

Task<Status> Pace::until_ended() const {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (true) {
    CO_TRY_OK(go_on());
    timer.expires_after(kMovePaceLookAgain);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

}  // namespace tarn::target
