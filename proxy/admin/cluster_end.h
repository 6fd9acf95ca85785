#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/action.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// AIStore's action "decommission" on the cluster: all of it ends, with users' data if rm_user_data
/// is set. Answered when that is in the map (common/cluster/state/cluster_end.h); from then on it
/// goes on by itself, and may be asked for again. The body names the nodes that were left out, if
/// any. conflict for a node that is down, unless frc=true leaves it out.
Task<Status> end_cluster(const Services& services, http::Request& request, Action action);

/// Carries it out, on the proxy that leads: runs until the cluster is gone and this process is
/// asked to stop, or until it is cancelled. `services` must outlive it.
Task<void> carry_out_cluster_end(const Services& services);

}  // namespace tarn::proxy
