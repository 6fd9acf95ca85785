#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// Makes whole what is known to be short (TargetNode::repair_requests): writes that were
/// acknowledged with fewer slices than wanted, and bad ones that holders have reported. Soon, also
/// while keep_coded() is at work for hours; what could not be done is tried again, less and less
/// often. Reports bad slices here to their owners, too. Runs until it is cancelled.
Task<void> repair_requested(TargetNode& node);

}  // namespace tarn::target
