#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "common/api/slice_counts.h"
#include "common/base/ids.h"

namespace tarn::target {

/// Pieces here of which the owners could not tell at the last look whether they are needed
/// (drop_unnamed()), by bucket. Thread-safe.
class UnjudgedPieces {
 public:
  void set(std::map<BucketId, api::PieceSum> all) {
    const std::lock_guard lock(mutex_);
    all_ = std::move(all);
  }
  [[nodiscard]] api::PieceSum of(BucketId bucket) const {
    const std::lock_guard lock(mutex_);
    const auto its = all_.find(bucket);
    return its == all_.end() ? api::PieceSum() : its->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<BucketId, api::PieceSum> all_;  // guarded by mutex_
};

}  // namespace tarn::target
