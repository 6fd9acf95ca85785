#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// POST of a batch of names (docs/decisions/016), on the internal listener.
Task<Status> take_batch(TargetNode& node, http::Request& request);

}  // namespace tarn::target
