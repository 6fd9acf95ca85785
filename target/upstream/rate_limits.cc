#include "target/upstream/rate_limits.h"

#include <algorithm>

#include <boost/asio/steady_timer.hpp>

namespace tarn::target {
namespace {

Task<Status> sleep_for(std::chrono::nanoseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(time);
  const auto [error] = co_await timer.async_wait(kTuple);
  if (error) co_return fail(Errc::cancelled, "this target is stopping; try again");
  co_return Status();
}

std::string_view name_of(api::BackendRequest kind) {
  switch (kind) {
    case api::BackendRequest::read: return "reads";
    case api::BackendRequest::write: return "writes";
    case api::BackendRequest::remove: break;
  }
  return "deletes";
}

}  // namespace

std::optional<std::chrono::nanoseconds> RequestPace::take(BootTime now,
                                                          std::chrono::nanoseconds spacing,
                                                          std::chrono::nanoseconds most) {
  const auto turn = std::max(now, next_);
  if (turn - now > most) return std::nullopt;
  next_ = turn + spacing;
  return turn - now;
}

std::chrono::nanoseconds RequestPace::wait(BootTime now) const {
  return std::max(next_ - now, std::chrono::nanoseconds(0));
}

std::shared_ptr<RateLimits::OfBucket> RateLimits::of_locked(const std::string& bucket) {
  auto& own = buckets_[bucket];
  if (!own) own = std::make_shared<OfBucket>();
  return own;
}

std::uint64_t RateLimits::targets() const { return std::max<std::uint64_t>(targets_(), 1); }

Task<Status> RateLimits::enter(std::string bucket, api::BackendRate rate, api::BackendRequest kind,
                               std::chrono::seconds most) {
  if (!rate.enabled) co_return Status();
  const std::chrono::nanoseconds spacing = std::chrono::nanoseconds(rate.interval) *
                                           static_cast<std::int64_t>(targets()) /
                                           static_cast<std::int64_t>(rate.requests(kind));
  std::optional<std::chrono::nanoseconds> wait;
  std::chrono::nanoseconds until_next{};
  {
    const MutexLock lock(mutex_);
    RequestPace& pace = of_locked(bucket)->paces[kind];
    const BootTime now = clock_.boot_time();
    wait = pace.take(now, spacing, most);
    until_next = pace.wait(now);
  }
  if (!wait)
    co_return fail(Errc::unavailable,
                   "rate_limit.backend of {} allows {} {} in {} s to the whole cluster, and the "
                   "next turn of this target is in {} s",
                   bucket, rate.requests(kind), name_of(kind),
                   std::chrono::duration<double>(rate.interval).count(),
                   std::chrono::ceil<std::chrono::seconds>(until_next).count());
  if (wait->count() == 0) co_return Status();
  co_return co_await sleep_for(*wait);
}

Task<Status> RateLimits::pass(std::string bucket, api::BackendRate rate, Direction direction,
                              std::uint64_t bytes) {
  if (rate.bytes_per_second == 0) co_return Status();
  std::shared_ptr<OfBucket> own;
  {
    const MutexLock lock(mutex_);
    own = of_locked(bucket);
  }
  RateLimiter& limiter = direction == Direction::received ? own->received : own->sent;
  limiter.set(std::max<std::uint64_t>(rate.bytes_per_second / targets(), 1));
  while (true) {
    const auto wait = limiter.take(bytes, clock_.boot_time());
    if (wait.count() == 0) co_return Status();
    CO_TRY_OK(co_await sleep_for(wait));
  }
}

}  // namespace tarn::target
