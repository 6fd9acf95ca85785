#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/api/coding_props.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Objects that this target has stored again since its start, and since their bucket got its
/// present coding (recode.h). Thread-safe.
class RecodeCounts {
 public:
  struct Count {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
  };
  using Coding = std::optional<api::CodingProps>;
  void add(BucketId bucket, const Coding& coding, std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    Entry& entry = counts_[bucket];
    if (entry.coding != coding) entry = {coding, {}};
    ++entry.count.objects;
    entry.count.bytes += bytes;
  }
  [[nodiscard]] Count of(BucketId bucket, const Coding& coding) const {
    const MutexLock lock(mutex_);
    const auto found = counts_.find(bucket);
    return found == counts_.end() || found->second.coding != coding ? Count() : found->second.count;
  }

 private:
  struct Entry {
    Coding coding;
    Count count;
  };
  mutable Mutex mutex_;
  std::map<BucketId, Entry> counts_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
