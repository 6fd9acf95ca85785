#pragma once

#include <string_view>

#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

// A path of one segment is a bucket, or else an object of the default bucket. Requests that would
// take such a path from the other are refused, so that a URL in use keeps its meaning. A race of
// the two ends in both, as does a bucket made while the object cannot be looked for: the bucket
// then has the path, and the object is at /DEFAULT/NAME. bucket_path.h has the other half.

/// Checks, before an object is stored, that no bucket has its path: conflict when one has.
[[nodiscard]] Status check_path_is_no_bucket(const Services& services,
                                             const cluster::ClusterState& state,
                                             const api::Bucket& bucket, std::string_view object);

/// True for the bucket whose objects have paths of one segment.
[[nodiscard]] bool is_default_bucket(const Services& services, const api::Bucket& bucket);

}  // namespace tarn::proxy
