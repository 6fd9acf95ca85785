#include "target/node_call.h"

#include <utility>

#include "common/api/status.h"

namespace tarn::target {

http::ClientRequest signed_call(const TargetNode& node, http::Method method, std::string target) {
  http::ClientRequest request;
  request.method = method;
  request.target = std::move(target);
  request.fields.push_back({std::string(security::NodeAuth::kHeader),
                            node.auth.sign(http::to_string(method), request.target)});
  return request;
}

Task<Result<http::ClientResponse>> ask_target(TargetNode& node, std::string id,
                                              http::ClientRequest request,
                                              http::CallLimits limits) {
  const auto state = node.view.state();
  const cluster::Node* target = state->map.find(id);
  if (target == nullptr) co_return fail(Errc::unavailable, "target t[{}] is not in the map", id);
  CO_TRY(http::Url address, http::parse_url(target->internal_url));
  auto answer = co_await node.client.call(std::move(address), std::move(request), limits);
  if (answer) co_return answer;
  co_return fail(Errc::disconnected, "target t[{}] did not answer: {}", id, answer.error().message);
}

Error error_of_answer(const std::string& id, unsigned status, std::string_view body) {
  return {api::errc_of_answer(status, body),
          fmt::format("target t[{}]: {}", id, api::error_message_of(body))};
}

}  // namespace tarn::target
