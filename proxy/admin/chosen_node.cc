#include "proxy/admin/chosen_node.h"

#include <utility>

#include "proxy/core/named_error.h"

namespace tarn::proxy {
namespace {

constexpr std::string_view kNodeId = "Ais-Node-Id";

}  // namespace

Error node_unknown(const std::string& id) {
  return {Errc::not_found, fmt::format("node '{}' is not in the cluster map", id)};
}

Result<const cluster::Node*> chosen_node(const Services& services,
                                         const cluster::ClusterState& state,
                                         const http::Request& request) {
  const std::string id(request.head().field(kNodeId));
  if (id.empty())
    return fail(Errc::invalid_argument, "the field {} is missing: it names the node", kNodeId);
  if (id == services.node_id()) return nullptr;
  const cluster::Node* node = state.map.find(id);
  if (node == nullptr) return fail(node_unknown(id));
  return node;
}

http::Response relayed(const http::ClientResponse& answer) {
  return {answer.status, answer.field("Content-Type"), answer.body};
}

Task<Status> refuse_node(http::Request& request, Error error) {
  if (error.code != Errc::not_found) co_return fail(std::move(error));
  const Status sent = co_await refuse_as(request, std::move(error), kNodeNotFound);
  co_return sent;
}

}  // namespace tarn::proxy
