#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// GET /v1/internal/slices: the slices of a bucket's objects, counted.
Task<Status> count_slices(TargetNode& node, http::Request& request);

}  // namespace tarn::target
