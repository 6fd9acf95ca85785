#pragma once

#include "common/base/async.h"
#include "target/node/node.h"

namespace tarn::target {

/// Background task. After each settled map change, sends every object stored here but placed
/// elsewhere to its replicas (rebalance_walk()). Retries with back-off. Pauses while rebalance is
/// disabled (cluster::may_move_names()). Progress is in node.handoff. When nothing is left, reports
/// that to the cluster, so that past epochs can be forgotten (docs/decisions/011). Runs until it is
/// cancelled; on any loop.
Task<void> handoff(TargetNode& node);

}  // namespace tarn::target
