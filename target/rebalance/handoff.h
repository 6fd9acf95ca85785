#pragma once

#include "common/base/async.h"
#include "target/node/node.h"

namespace tarn::target {

/// Gives what lies here and is another target's by the map to its replica (rebalance_walk()), each
/// time the map has changed and settled; what fails is tried again, with back-off. Not while
/// operators do not want it (cluster::may_move_names()); node.handoff tells how far it is. When
/// nothing is left the cluster is told so, and past epochs can be forgotten (docs/decisions/011).
/// Runs until it is cancelled; on any loop.
Task<void> handoff(TargetNode& node);

}  // namespace tarn::target
