#include "proxy/watch/node_calls.h"

#include <algorithm>
#include <utility>

#include "common/api/status.h"
#include "common/base/gather.h"
#include "proxy/watch/suspects.h"

namespace tarn::proxy {
namespace {

/// A suspect is asked all the same, as it may just have come back, but its caller does not wait for
/// long: people look at a cluster when a part of it hangs.
constexpr std::chrono::milliseconds kSuspectTotal{1'000};

}  // namespace

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
  const auto answering = services.suspects.answering();
  if (!answering->contains(node.id)) limits.total = std::min(limits.total, kSuspectTotal);
  if (limits.is_silent == nullptr) limits.is_silent = answering->silence_of(node.id);
  auto answer = co_await services.client.call(std::move(address), std::move(request), limits);
  if (!answer)
    co_return fail(Errc::unavailable, "node {} does not answer: {}", node.id,
                   answer.error().message);
  co_return std::move(*answer);
}

Task<Status> put_on(const Services& services, Nodes nodes, std::string path, std::string body,
                    http::CallLimits limits) {
  std::vector<Task<Result<http::ClientResponse>>> calls;
  calls.reserve(nodes.size());
  for (const cluster::Node* node : nodes)
    calls.push_back(call_node(services, *node, http::Method::put, path, limits, body));
  const auto answers = co_await gather(std::move(calls));
  Error problem{Errc::unavailable, ""};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::string why;
    if (!answers[i])
      why = answers[i].error().message;
    else if (answers[i]->status != 200)
      why = fmt::format("node {}: {}", nodes[i]->id, api::error_message_of(answers[i]->body));
    if (why.empty()) continue;
    if (answers[i] && problem.message.empty())
      problem.code = api::errc_of_answer(answers[i]->status, answers[i]->body);
    problem.message += (problem.message.empty() ? "" : "; ") + why;
  }
  if (!problem.message.empty()) co_return fail(std::move(problem));
  co_return Status();
}

Task<Status> answer_empty(http::Request& request) {
  const Status sent = co_await request.exchange.respond(http::Response(200));
  co_return sent;
}

}  // namespace tarn::proxy
