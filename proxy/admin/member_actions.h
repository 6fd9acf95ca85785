#pragma once

#include <nlohmann/json_fwd.hpp>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/cluster/state/member_change.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// AIStore's actions on members of the cluster, PUT /v1/cluster. The answer is the id of the
/// rebalance that moves their names, or empty. Further steps of an action are in the map, so that
/// they go on without the caller and the proxy that was asked. shutdown-node stops proxies, and
/// with skip_rebalance targets, at once. decommission-node with skip_rebalance is refused with the
/// number of objects that would be lost, unless frc=true.
Task<Status> change_members(const Services& services, http::Request& request,
                            cluster::MemberChange::Action action, nlohmann::json value);

/// POST /v1/cluster/join-by-admin: a node that was taken out of the map and runs is in it again.
/// The body is its entry, of which only the address for other nodes counts.
Task<Status> join_by_admin(const Services& services, http::Request& request);

}  // namespace tarn::proxy
