#pragma once

#include "common/base/async.h"
#include "target/node.h"

namespace tarn::target {

/// Asks a proxy to begin the job that ResilverWish wants, until one has taken it. For one loop;
/// runs until it is cancelled.
Task<void> tell_wishes(TargetNode& node);

}  // namespace tarn::target
