#pragma once

#include <string>
#include <vector>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/client.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// One call to another node's internal listener, signed. unavailable, naming the node, when it
/// cannot be reached; answers of every status are returned.
Task<Result<http::ClientResponse>> call_node(const Services& services, const cluster::Node& node,
                                             http::Method method, std::string path_and_query,
                                             http::CallLimits limits = {});
/// The same with a body.
Task<Result<http::ClientResponse>> call_node(const Services& services, const cluster::Node& node,
                                             http::Method method, std::string path_and_query,
                                             http::CallLimits limits, std::string body);

using Nodes = std::vector<const cluster::Node*>;
/// One PUT to each node at once. An error names the nodes that failed, with the reason of the
/// first.
Task<Status> put_on(const Services& services, Nodes nodes, std::string path, std::string body,
                    http::CallLimits limits = {});
/// 200 without a body.
Task<Status> answer_empty(http::Request& request);

}  // namespace tarn::proxy
