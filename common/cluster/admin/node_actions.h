#pragma once

#include <vector>

#include "common/cluster/admin/node_routes.h"

namespace tarn::cluster {

/// AIStore's actions on one node, PUT /v1/daemon: set-config, reset-config, rotate-logs,
/// reset-stats; and the same from paths and queries as its command line writes them
/// (/v1/daemon/set-config?log.level=4). Answers 200 without a body. `body` is the request's, read.
Task<Status> act_on_node(const NodeContext& context, http::Request& request, std::string body);
/// Reads the body and does that.
Task<Status> put_daemon(const NodeContext& context, http::Request& request);

/// Routes that only nodes may call, on a node's internal listener. PUT /v1/internal/config?version=
/// is answered when that version of the cluster's configuration is in force here. PUT
/// /v1/internal/shutdown is answered before the node stops as at SIGTERM. POST /v1/internal/join
/// puts a node that was taken out of the map into it again, and returns {"daemon_id":..}. `context`
/// must outlive the routes.
[[nodiscard]] std::vector<http::Route> internal_node_routes(const NodeContext& context);

}  // namespace tarn::cluster
