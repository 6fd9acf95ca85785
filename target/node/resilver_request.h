#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Request that objects move between the drives of this target: a proxy is asked to begin a job for
/// it (request_jobs.h). Each request has the id of its job, so that it becomes one job only,
/// however often it is sent. Thread-safe.
class ResilverRequest {
 public:
  enum class By : std::uint8_t {
    drives,  ///< they came or went: by itself, if the setting allows it
    order    ///< wants a drive to be emptied
  };
  /// Setting resilver.enabled: whether objects move without being asked for.
  std::atomic<bool> enabled = true;

  /// From now on a walk is wanted that begins after this.
  void ask(By by);
  /// The id of the job that is wanted now; empty: none.
  [[nodiscard]] std::string job(BootTime now) const;

  enum class End : std::uint8_t {
    clean,    ///< all is in place
    stopped,  ///< by request
    failed    ///< to be tried again, later each time
  };
  /// A walk begins; returns the value for its end(). It does not matter who began it.
  [[nodiscard]] std::uint64_t begin() const;
  void end(std::uint64_t begun, End how, BootTime now);
  /// Number of walks that have ended.
  [[nodiscard]] std::uint64_t ended() const;

 private:
  mutable Mutex mutex_;
  std::uint64_t asked_ TARN_GUARDED_BY(mutex_) = 0;
  std::uint64_t ended_ TARN_GUARDED_BY(mutex_) = 0;
  bool by_operator_ TARN_GUARDED_BY(mutex_) = false;
  std::string job_ TARN_GUARDED_BY(mutex_);  // empty: nothing is wanted
  BootTime not_before_ TARN_GUARDED_BY(mutex_){0};
  std::chrono::seconds delay_ TARN_GUARDED_BY(mutex_){0};
};

}  // namespace tarn::target
