#pragma once

#include <memory>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/cluster/state/state.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"

// Moves that targets make by themselves when the map changes, shown as a job of kind "rebalance"
// (docs/decisions/015). Its id is "g" and the version of the map that began it.
namespace tarn::proxy {

/// A hash of the owners by this map: equal for the same targets with the same weights and zones.
/// Pure.
[[nodiscard]] std::string owners_mark(const cluster::Ownership& map);

/// Writes the record of the rebalance that `state`'s map begins, if there is none, and returns its
/// id; some proxy drives it then. When the store does not take it, the proxy that leads writes it
/// soon.
Task<std::string> note_rebalance(const Services& services,
                                 std::shared_ptr<const cluster::ClusterState> state);

/// While this proxy leads: notes a rebalance whenever the map has settled, names are misplaced, and
/// none of the same owners runs. Until it is cancelled.
Task<void> note_rebalances(const Services& services);

/// Watches the targets until all names are in place: done; or until other targets own them, or
/// moves are stopped: aborted. It moves nothing itself (Jobs::Drive).
Task<Status> drive_rebalance(const Services& services, Job job);

/// Watches the targets until all names are in place by the number of copies on nodes that the
/// bucket has since map version `since`: done, but for targets that are out; or until it has
/// another number, or moves are stopped: aborted. It moves nothing itself.
Task<Status> watch_copies_on_nodes(const Services& services, Job job, BucketId bucket,
                                   std::uint64_t since);

}  // namespace tarn::proxy
