#pragma once

#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/client.h"
#include "proxy/services.h"

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

}  // namespace tarn::proxy
