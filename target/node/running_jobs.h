#pragma once

#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "common/base/check.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// The jobs under way at this target (bucket copies, rebalance, resilver), by their id, so that
/// they can be stopped. Thread-safe.
class RunningJobs {
 public:
  /// Keeps a job known as long as it lives.
  class Known {
   public:
    Known(RunningJobs& all, std::string job) : all_(all), job_(std::move(job)) {}
    ~Known() {
      const MutexLock lock(all_.mutex_);
      const std::size_t erased = all_.running_.erase(job_);
      TARN_CHECK(erased == 1);
    }
    Known(const Known&) = delete;
    Known& operator=(const Known&) = delete;

   private:
    RunningJobs& all_;
    std::string job_;
  };

  /// Null when there is one with this id already.
  [[nodiscard]] std::unique_ptr<Known> add(const std::string& job, std::stop_source stop) {
    const MutexLock lock(mutex_);
    if (!running_.emplace(job, std::move(stop)).second) return nullptr;
    return std::make_unique<Known>(*this, job);
  }
  /// Asks it to stop; does nothing when it is not known (any more).
  void stop(const std::string& job) {
    const MutexLock lock(mutex_);
    if (const auto at = running_.find(job); at != running_.end()) at->second.request_stop();
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::stop_source> running_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
