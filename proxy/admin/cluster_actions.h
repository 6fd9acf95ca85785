#pragma once

#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// PUT /v1/cluster with AIStore's message, and PUT /v1/cluster/set-config?KEY=VALUE. set-config:
/// kept for all nodes, and in force on all that are up when it is answered (transient=true: sent to
/// all that are up, kept nowhere). reset-config: every node forgets the changes for it alone; with
/// a list of names these have their defaults again in the whole cluster. rotate-logs, reset-stats:
/// on every node. shutdown. decommission: cluster_end.h. Members: member_actions.h. start and stop:
/// rebalance.h, job_actions.h. Other actions belong to later work.
Task<Status> change_cluster(const Services& services, http::Request& request);

/// PUT /v1/cluster/proxy/ID: that proxy is the primary from now on.
Task<Status> change_primary(const Services& services, http::Request& request, std::string id);

/// /v1/reverse/daemon/... with Ais-Node-Id, any method but GET: that node's answer to the same
/// without
/// "/reverse".
Task<Status> act_on_chosen_node(const Services& services, http::Request& request);

}  // namespace tarn::proxy
