#pragma once

#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/client.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// Error for a node that the map does not have.
[[nodiscard]] Error node_unknown(const std::string& id);
/// The node that the field Ais-Node-Id names; null for this proxy itself. invalid_argument without
/// the field, not_found for a node that the map does not have.
[[nodiscard]] Result<const cluster::Node*> chosen_node(const Services& services,
                                                       const cluster::ClusterState& state,
                                                       const http::Request& request);
/// Answer of another node, as the answer of this one.
[[nodiscard]] http::Response relayed(const http::ClientResponse& answer);
/// Answers with `error`, under the name that AIStore's clients look for when the node is unknown.
Task<Status> refuse_node(http::Request& request, Error error);

}  // namespace tarn::proxy
