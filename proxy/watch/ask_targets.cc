#include "proxy/watch/ask_targets.h"

#include "common/api/status.h"
#include "common/base/gather.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {

using nlohmann::json;

json report_in(const Result<http::ClientResponse>& answer) {
  if (!answer) return {{"error", answer.error().message}};
  if (answer->status != 200) return {{"error", api::error_message_of(answer->body)}};
  json out = json::parse(answer->body, nullptr, false);
  if (!out.is_object()) return {{"error", "its answer is no JSON"}};
  return out;
}

Task<json> ask_targets_for(const Services& services, std::string path,
                           std::chrono::seconds patience) {
  const http::CallLimits limits{.total = patience};
  const auto state = services.view.state();
  Nodes targets;
  for (const auto& [id, node] : state->map.nodes)
    if (node.role == cluster::Role::target) targets.push_back(&node);
  std::vector<Task<Result<http::ClientResponse>>> calls;
  for (const cluster::Node* target : targets)
    calls.push_back(call_node(services, *target, http::Method::get, path, limits));
  const auto answers = co_await gather(std::move(calls));
  json reports = json::object();
  for (std::size_t i = 0; i < targets.size(); ++i) reports[targets[i]->id] = report_in(answers[i]);
  co_return reports;
}

}  // namespace tarn::proxy
