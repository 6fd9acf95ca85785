#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/api/backend_rate.h"
#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "target/node/move_limits.h"

namespace tarn::target {

/// Requests one after the other, evenly spaced: never more than the limit in any interval, and no
/// burst after a pause (the "leaky bucket as a queue" of J. Turner, 1986). Not thread-safe.
class RequestPace {
 public:
  /// Takes the next turn: the time until then. Nothing, and no turn is taken, when that is more
  /// than `most`. `spacing`: between two turns.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> take(BootTime now,
                                                             std::chrono::nanoseconds spacing,
                                                             std::chrono::nanoseconds most);
  /// Time until the next turn.
  [[nodiscard]] std::chrono::nanoseconds wait(BootTime now) const;

 private:
  BootTime next_{0};
};

/// Bounds requests and bytes between this target and upstream servers, by bucket
/// (api::BackendRate). A target takes an equal share of what its cluster may have. Thread-safe;
/// tasks run on any loop.
class RateLimits {
 public:
  /// Time that a request waits for its turn.
  static constexpr std::chrono::seconds kTurnMost{60};
  enum class Direction : std::uint8_t { received, sent };

  /// `targets`: how many share the limits now; called on any thread.
  RateLimits(Clock& clock, std::function<std::size_t()> targets)
      : clock_(clock), targets_(std::move(targets)) {}

  /// Waits for the turn of a request. unavailable when that is more than `most` away; cancelled
  /// when the target stops. `bucket`: its name for messages, unlike that of any other.
  Task<Status> enter(std::string bucket, api::BackendRate rate, api::BackendRequest kind,
                     std::chrono::seconds most = kTurnMost);
  /// Counts bytes that have come or are to be sent, and waits until there is room for more.
  /// cancelled when the target stops.
  Task<Status> pass(std::string bucket, api::BackendRate rate, Direction direction,
                    std::uint64_t bytes);

 private:
  struct OfBucket {
    std::map<api::BackendRequest, RequestPace> paces;  // guarded by RateLimits::mutex_
    RateLimiter received;
    RateLimiter sent;
  };
  [[nodiscard]] std::uint64_t targets() const;
  [[nodiscard]] std::shared_ptr<OfBucket> of_locked(const std::string& bucket)
      TARN_REQUIRES(mutex_);

  Clock& clock_;
  const std::function<std::size_t()> targets_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<OfBucket>> buckets_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
