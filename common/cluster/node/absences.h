#pragma once

#include <map>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tarn::cluster {

/// Times since which targets have had no lease, as the proxy that leads counts it (coordinate()).
/// Empty elsewhere. A new leader counts anew, so a target may have been away for longer.
/// Thread-safe.
class Absences {
 public:
  void learn(std::map<std::string, BootTime> since) {
    const MutexLock lock(mutex_);
    since_ = std::move(since);
  }
  /// Ids of targets, with the time at which each was first seen without a lease.
  [[nodiscard]] std::map<std::string, BootTime> since() const {
    const MutexLock lock(mutex_);
    return since_;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, BootTime> since_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::cluster
