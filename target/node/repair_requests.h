#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Objects of ours of which some slice is known to be missing or bad: they are looked at soon.
/// Thread-safe.
class RepairRequests {
 public:
  using Name = std::pair<BucketId, std::string>;
  /// More are forgotten: a look through everything finds them.
  static constexpr std::size_t kMax = 10'000;

  void add(BucketId bucket, const std::string& object) {
    const MutexLock lock(mutex_);
    if (names_.size() < kMax) names_.emplace(bucket, object);
  }
  [[nodiscard]] std::set<Name> take() {
    const MutexLock lock(mutex_);
    return std::exchange(names_, {});
  }

 private:
  Mutex mutex_;
  std::set<Name> names_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
