#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// Resolves what this node holds and is not known to be at all replicas (node_copies.h): its writer
/// may have gone before it could report that. Does so two seconds after it came, at the start and
/// whenever the map has changed. Runs until it is cancelled.
Task<void> resolve_pending(TargetNode& node);

}  // namespace tarn::target
