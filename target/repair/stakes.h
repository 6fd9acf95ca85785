#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// GET /v1/internal/stakes: {"ceiling","floor","target":[..],"drives":{"PATH":[..]}}, what the loss
/// of this target and of each drive in service would take away (api::Stake), counted in the
/// indexes, and what this target may take to make others' losses good (api::RebuildRates). 503
/// while a drive does not answer.
Task<Status> tell_stakes(TargetNode& node, http::Request& request);

}  // namespace tarn::target
