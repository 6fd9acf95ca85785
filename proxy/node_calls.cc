#include "proxy/node_calls.h"

namespace tarn::proxy {

Task<Result<http::ClientResponse>> call_node(const Services& services, const cluster::Node& node,
                                             http::Method method, std::string path_and_query,
                                             http::CallLimits limits) {
  return call_node(services, node, method, std::move(path_and_query), limits, "");
}

Task<Result<http::ClientResponse>> call_node(const Services& services, const cluster::Node& node,
                                             http::Method method, std::string path_and_query,
                                             http::CallLimits limits, std::string body) {
  CO_TRY(http::Url address, http::parse_url(node.internal_url));
  http::ClientRequest request;
  request.method = method;
  request.fields.push_back({std::string(security::NodeAuth::kHeader),
                            services.auth.sign(http::to_string(method), path_and_query)});
  request.target = std::move(path_and_query);
  request.body = std::move(body);
  auto answer = co_await services.client.call(std::move(address), std::move(request), limits);
  if (!answer)
    co_return fail(Errc::unavailable, "node {} does not answer: {}", node.id,
                   answer.error().message);
  co_return std::move(*answer);
}

}  // namespace tarn::proxy
