#pragma once

#include <string>

#include "target/node/node.h"

namespace tarn::target {

// The way forward of a version that not all replicas may have, where slices depend on it: by the
// name's owner alone, under a generation of its own (docs/decisions/019, rule F). So what all have
// is above all that was made before it.

/// Sends `here`, whose writer does not go on with it, to the owner, or, here at the owner, commits
/// it once more. When it returns nothing of the name is pending here, or something newer has come.
/// Not under the name's lock. unavailable when that cannot be.
Task<Status> bring_forward(TargetNode& node, ObjectName name, Located here);
/// The writer of what is here has something newer that all have: it is brought here.
Task<Status> fetch_newer(TargetNode& node, ObjectName name, std::string writer);

}  // namespace tarn::target
