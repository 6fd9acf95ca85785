#pragma once

#include <memory>

#include "common/api/move_progress.h"
#include "common/cluster/state/state.h"
#include "target/node/move_pace.h"
#include "target/store/object_store.h"

namespace tarn::target {

/// Moves slices from a drive to other drives of this target, under the generation that they have.
/// All of them move when it is being emptied. Else those move of which another slice of the same
/// set lies there, too, as long as a drive that takes files has none. Part of a resilver. Ok:
/// nothing is left that has to move. cancelled and conflict as Pace; else the first error of one
/// that has to, after which the walk goes on.
Task<Status> move_slices(ObjectStore& store, std::shared_ptr<const cluster::ClusterState> state,
                         Drive& from, const Pace& pace, api::CopyProgress& counts);

}  // namespace tarn::target
