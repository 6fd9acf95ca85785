#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/base/async.h"
#include "common/base/backoff.h"
#include "common/base/error.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// Waits of a job's driver between rounds in which no target could take a step: longer each time,
/// and for 30 s in all, which is longer than a lease and a restart. Used on one loop.
class JobPatience {
 public:
  /// `services` must outlive it. `job`: its id.
  JobPatience(const Services& services, std::string job)
      : services_(services), job_(std::move(job)) {}

  /// True if the same request may succeed a moment later.
  [[nodiscard]] static bool may_pass(Errc code);
  /// Begins anew, after progress: the next wait is the first one again.
  void worked();
  /// Lets the job go on without the items that could not be done: it waits for 2 s only from now
  /// on.
  void shorten() { is_short_ = true; }
  /// Waits before the next round. `why`: the obstacle. cancelled when a user stops the job,
  /// unavailable without progress for too long.
  Task<Status> wait(std::string why);

 private:
  static constexpr std::chrono::milliseconds kPauseFirst{50};
  static constexpr std::chrono::milliseconds kPauseLast{1'000};

  const Services& services_;
  const std::string job_;
  std::optional<std::chrono::steady_clock::time_point> stuck_since_;
  Backoff pauses_{kPauseFirst, kPauseLast};
  bool is_short_ = false;
};

}  // namespace tarn::proxy
