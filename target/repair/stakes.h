#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// GET /v1/internal/stakes: {"ceiling","floor","target":[..],"drives":{"PATH":[..]}}. The cost of
/// losing this target and each drive in service (api::Stake), counted in the indexes. Also the
/// rates at which this target may make losses of other targets good (api::RebuildRates). 503 while
/// a drive does not answer.
Task<Status> tell_stakes(TargetNode& node, http::Request& request);

}  // namespace tarn::target
