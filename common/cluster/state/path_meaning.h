#pragma once

#include <string_view>

#include "common/base/error.h"
#include "common/cluster/state/state.h"

namespace tarn::cluster {

/// Check of an object that is to get this name in the default bucket `bucket`: conflict if a bucket
/// has the path already. A path of one segment is a bucket, or else an object of the default
/// bucket.
[[nodiscard]] Status check_path_is_no_bucket(const ClusterState& state, const api::Bucket& bucket,
                                             std::string_view object);

}  // namespace tarn::cluster
