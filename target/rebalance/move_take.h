#pragma once

#include "target/node/node.h"

namespace tarn::target {

// The receiver's side of a move, on the internal listener.

/// Answers which of the offered names are wanted (move_offer.h).
Task<Status> answer_offer(TargetNode& node, http::Request& request);
/// Stores a copy that comes as the body.
Task<Status> take_copy(TargetNode& node, http::Request& request);

}  // namespace tarn::target
