#pragma once

#include <memory>
#include <stop_token>

#include "common/api/move_progress.h"
#include "common/cluster/place/ownership.h"
#include "target/node/node.h"

namespace tarn::target {

/// Sends away what this target holds and `map` does not place here (plan_name()), until a look at
/// everything finds nothing more. Then it is ok, `progress.clean`, and the target may report that
/// it has `moved` under this map. A copy is deleted here when all targets that should have it
/// reported that they have it durably. The map must have settled: no target writes by an older one.
/// One walk at a time: a newer map ends this one, which is a conflict then, and so is an older map
/// than the node knows. `progress` is kept up to date on the caller's loop. Errors as
/// MoveWalk::run().
Task<Status> rebalance_walk(TargetNode& node, std::shared_ptr<const cluster::Ownership> map,
                            api::MoveProgress& progress, std::stop_token stop);

}  // namespace tarn::target
