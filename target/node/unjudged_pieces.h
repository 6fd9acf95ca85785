#pragma once

#include <map>
#include <utility>

#include "common/api/slice_counts.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Pieces here of which the owners could not tell at the last look whether they are needed
/// (drop_unnamed()), by bucket. Thread-safe.
class UnjudgedPieces {
 public:
  void set(std::map<BucketId, api::PieceSum> all) {
    const MutexLock lock(mutex_);
    all_ = std::move(all);
  }
  [[nodiscard]] api::PieceSum of(BucketId bucket) const {
    const MutexLock lock(mutex_);
    const auto its = all_.find(bucket);
    return its == all_.end() ? api::PieceSum() : its->second;
  }

 private:
  mutable Mutex mutex_;
  std::map<BucketId, api::PieceSum> all_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
