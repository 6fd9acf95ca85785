#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// POST of an order to copy what a bucket holds here, on the internal listener.
Task<Status> copy_bucket(TargetNode& node, http::Request& request);

}  // namespace tarn::target
