#include "target/node/node_call.h"

#include <algorithm>
#include <chrono>
#include <span>
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

http::CallLimits transfer_limits(std::uint64_t size) {
  constexpr std::chrono::seconds kAlways{60};
  constexpr std::chrono::seconds kMax{600};
  constexpr std::uint64_t kBytesPerSecond = 16U << 20U;
  return {.stall = std::min(kMax, kAlways + std::chrono::seconds(size / kBytesPerSecond))};
}

Task<std::string> read_text(http::ClientStream& stream, std::size_t bytes_max) {
  std::string text(bytes_max, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const auto got =
        co_await stream.read_some(std::as_writable_bytes(std::span(text)).subspan(have));
    if (!got || *got == 0) break;
    have += *got;
  }
  text.resize(have);
  co_return text;
}

}  // namespace tarn::target
