#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "common/api/coding_props.h"
#include "common/base/ids.h"

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
    const std::lock_guard lock(mutex_);
    Entry& entry = counts_[bucket];
    if (entry.coding != coding) entry = {coding, {}};
    ++entry.count.objects;
    entry.count.bytes += bytes;
  }
  [[nodiscard]] Count of(BucketId bucket, const Coding& coding) const {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(bucket);
    return found == counts_.end() || found->second.coding != coding ? Count() : found->second.count;
  }

 private:
  struct Entry {
    Coding coding;
    Count count;
  };
  mutable std::mutex mutex_;
  std::map<BucketId, Entry> counts_;
};

}  // namespace tarn::target
