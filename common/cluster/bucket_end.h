#pragma once

#include <chrono>
#include <cstdint>

#include "common/api/bucket.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/cluster/cluster_view.h"
#include "common/cluster/meta_store.h"

namespace tarn::cluster {

/// The second step of destroy_bucket() (membership.h), of bucket `id` that is marked by bucket
/// metadata `bmd_version`; also for who finds it so, and nobody at it. Ok when it is gone already.
/// Another bucket that has its name by now is left alone: who only has seen the mark may be behind.
/// Errors as destroy_bucket().
Task<Status> finish_destroy(MetaStore& store, ClusterView& view, api::Bucket name, BucketId id,
                            std::uint64_t bmd_version, std::chrono::milliseconds limit);

}  // namespace tarn::cluster
