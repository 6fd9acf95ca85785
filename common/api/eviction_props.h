#pragma once

#include <chrono>

#include "common/api/bucket.h"
#include "common/api/bucket_props.h"

namespace tarn::api {

/// Eviction of a bucket's objects by space (docs/decisions/022).
struct EvictionProps {
  bool enabled = false;  ///< lru.enabled; false where objects cannot be fetched again
  std::chrono::milliseconds protect{0};  ///< lru.dont_evict_time: for so long after a read
};
[[nodiscard]] EvictionProps eviction_of(const Bucket& bucket, const BucketProps& props);

/// Properties that a new bucket with an upstream begins with: AIStore evicts from such by default.
[[nodiscard]] BucketProps with_eviction(BucketProps props);

}  // namespace tarn::api
