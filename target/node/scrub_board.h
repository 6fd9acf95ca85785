#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "target/node/move_limits.h"
#include "target/node/scrub_state.h"

namespace tarn::target {

/// The scrub of one drive, as those see it who want something of it. Thread-safe.
class ScrubOfDrive {
 public:
  /// A pass for this job is wanted now.
  void want(const std::string& job) {
    const MutexLock lock(mutex_);
    wanted_ = job;
  }
  /// Not any more: what is left of it has time until it is due by itself.
  void let_go(const std::string& job) {
    const MutexLock lock(mutex_);
    if (wanted_ == job) wanted_.clear();
  }
  /// The job for which a pass is wanted; empty: none.
  [[nodiscard]] std::string wanted() const {
    const MutexLock lock(mutex_);
    return wanted_;
  }
  void show(const ScrubState& state, bool known) {
    const MutexLock lock(mutex_);
    state_ = state;
    known_ = known;
  }
  [[nodiscard]] ScrubState state() const {
    const MutexLock lock(mutex_);
    return state_;
  }
  /// False: what the drive keeps of it has not been read yet.
  [[nodiscard]] bool known() const {
    const MutexLock lock(mutex_);
    return known_;
  }

  std::atomic<std::uint64_t> rate{0};  ///< bytes a second now

 private:
  mutable Mutex mutex_;
  std::string wanted_ TARN_GUARDED_BY(mutex_);
  ScrubState state_ TARN_GUARDED_BY(mutex_);
  bool known_ TARN_GUARDED_BY(mutex_) = false;
};

/// The scrubs of all drives of a target. Thread-safe.
class ScrubBoard {
 public:
  static constexpr std::chrono::milliseconds kPeriod = std::chrono::hours(24 * 7);

  /// Setting scrub.period; zero: nothing is read that was not asked for.
  std::atomic<std::chrono::milliseconds> period{kPeriod};
  /// Setting scrub.bandwidth: what all drives may read a second together.
  RateLimiter rate;

  [[nodiscard]] std::shared_ptr<ScrubOfDrive> of(const std::string& path) {
    const MutexLock lock(mutex_);
    auto& its = drives_[path];
    if (its == nullptr) its = std::make_shared<ScrubOfDrive>();
    return its;
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<ScrubOfDrive>> drives_ TARN_GUARDED_BY(mutex_);  // by path
};

}  // namespace tarn::target
