#pragma once

#include <map>
#include <utility>

#include "common/api/slice_counts.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Slices here of which the owners did not know at the last look if they are needed
/// (drop_unnamed()), by bucket. Thread-safe.
class UnjudgedSlices {
 public:
  void set(std::map<BucketId, api::SliceSum> all) {
    const MutexLock lock(mutex_);
    all_ = std::move(all);
  }
  [[nodiscard]] api::SliceSum of(BucketId bucket) const {
    const MutexLock lock(mutex_);
    const auto its = all_.find(bucket);
    return its == all_.end() ? api::SliceSum() : its->second;
  }

 private:
  mutable Mutex mutex_;
  std::map<BucketId, api::SliceSum> all_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
