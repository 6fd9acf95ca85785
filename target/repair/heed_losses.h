#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// Takes back a stop of rebuilds once more is lost, and for nothing else: neither a new map, nor a
/// target that joins, is one. Looks ten times a second, beside keep_coded(), which may be long at
/// one look. Runs until it is cancelled.
Task<void> heed_losses(TargetNode& node);

}  // namespace tarn::target
