#pragma once

#include "common/base/error.h"
#include "common/cluster/state/state.h"
#include "common/io/file_system.h"

namespace tarn::target {

/// Refuses to work by `state` when this drive has seen more of the same cluster: the meta store was
/// lost, or put back to an older state (conflict, with what to do). A drive without a note, or with
/// one that cannot be read, is no reason.
Status check_history(io::FileSystem& files, const cluster::ClusterState& state);

}  // namespace tarn::target
