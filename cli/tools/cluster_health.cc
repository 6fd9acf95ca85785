#include "cli/tools/cluster_health.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "common/base/read_json.h"

namespace tarn::cli {
namespace {

using nlohmann::json;

constexpr const char* kMapPath = "/v1/daemon?what=smap";
constexpr const char* kRebalancePath = "/v1/cluster?what=rebalance";
// AIStore's flags.
constexpr std::uint64_t kMaintenance = 4;
constexpr std::uint64_t kDecommission = 8;

std::uint64_t version_of(const json& map) {
  const auto found = map.find("version");
  if (found == map.end()) return 0;
  if (found->is_string()) return parse_u64(found->get<std::string>()).value_or(0);
  return found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string aside_of(const json& node) {
  const auto flags = node.value("flags", std::uint64_t{0});
  if ((flags & kDecommission) != 0) return "leaving";
  return (flags & kMaintenance) != 0 ? "maintenance" : "";
}

Result<ClusterHealth> health_from(std::string_view body) {
  const json map = json::parse(body, nullptr, false);
  return read_json(Errc::io, "the cluster map is malformed", [&]() -> Result<ClusterHealth> {
    ClusterHealth out;
    out.uuid = map.value("uuid", "");
    out.map_version = version_of(map);
    if (const auto primary = map.find("proxy_si"); primary != map.end() && primary->is_object())
      out.primary = primary->value("daemon_id", "");
    for (const auto& [key, role] : {std::pair("pmap", "proxy"), std::pair("tmap", "target")})
      for (const auto& [id, node] : map.at(key).items())
        out.nodes.push_back({.id = id,
                             .role = role,
                             .url = node.at("public_net").at("direct_url").get<std::string>(),
                             .zone = node.value("zone", ""),
                             .aside = aside_of(node),
                             .reason = {}});
    return out;
  });
}

/// Fills in the node's report about itself.
Task<void> cluster_health_ask(Session& session, NodeHealth& node, std::chrono::milliseconds limit) {
  const auto ready = co_await session.ask_node(node.url, "/readyz", limit);
  if (!ready) {
    node.reason = ready.error().message;
    co_return;
  }
  node.state = ready->status == 200 ? NodeHealth::State::up : NodeHealth::State::not_ready;
  if (node.state != NodeHealth::State::up) node.reason = trim(error_of(*ready).message);
  const auto map = co_await session.ask_node(node.url, kMapPath, limit);
  if (!map) co_return;
  const json parsed = json::parse(map->body, nullptr, false);
  if (parsed.is_object()) node.map_version = version_of(parsed);
}

/// Marks nodes whose lease has not begun, as after `tarn cluster recover`: they may answer, but the
/// cluster still takes them for down.
void mark_without_lease(ClusterHealth& health, const json& ids) {
  for (NodeHealth& node : health.nodes) {
    if (node.state != NodeHealth::State::up ||
        std::find(ids.begin(), ids.end(), node.id) == ids.end())
      continue;
    node.state = NodeHealth::State::not_ready;
    node.reason = "it has no lease yet";
  }
}

/// A target to which the asked proxy redirects no client is of no use yet, whatever it reports.
void mark_suspects(ClusterHealth& health, std::string_view metrics) {
  for (NodeHealth& node : health.nodes) {
    const std::string line = fmt::format("tarn_target_suspect{{target=\"{}\"}} 1\n", node.id);
    if (node.state != NodeHealth::State::up || metrics.find(line) == std::string_view::npos)
      continue;
    node.state = NodeHealth::State::not_ready;
    node.reason = "the proxy does not hear its heartbeat";
  }
}

}  // namespace

std::string_view to_string(NodeHealth::State state) {
  switch (state) {
    case NodeHealth::State::up: return "up";
    case NodeHealth::State::not_ready: return "not ready";
    case NodeHealth::State::down: break;
  }
  return "down";
}

std::string ClusterHealth::complaint() const {
  std::string out;
  for (const NodeHealth& node : nodes) {
    std::string wrong;
    if (node.state == NodeHealth::State::down && node.aside == "maintenance") continue;
    if (node.state != NodeHealth::State::up)
      wrong = fmt::format("{} ({})", to_string(node.state), node.reason);
    else if (node.map_version < map_version)
      wrong = fmt::format("has map {} of {}", node.map_version, map_version);
    if (!wrong.empty())
      out += fmt::format("{}{} {} is {}", out.empty() ? "" : "; ", node.role, node.id, wrong);
  }
  if (past_epochs > 0)
    out += fmt::format("{}objects have not all moved yet{}", out.empty() ? "" : "; ",
                       held ? ", and rebalance is stopped (tarn cluster rebalance start)" : "");
  return out;
}

Task<Result<ClusterHealth>> cluster_health(Session& session, std::chrono::milliseconds limit) {
  const std::string endpoint = "http://" + session.endpoint().authority();
  const auto answer = co_await session.ask_node(endpoint, kMapPath, limit);
  if (!answer)
    co_return fail(answer.error().code, "no cluster map from {}: {}", endpoint,
                   answer.error().message);
  if (answer->status >= 400) co_return fail(error_of(*answer));
  CO_TRY(ClusterHealth health, health_from(answer->body));
  for (NodeHealth& node : health.nodes) {
    co_await cluster_health_ask(session, node, limit);
    health.map_version = std::max(health.map_version, node.map_version);
  }
  const auto rebalance = co_await session.ask_node(endpoint, kRebalancePath, limit);
  if (!rebalance) co_return fail(rebalance.error());
  if (rebalance->status >= 400) co_return fail(error_of(*rebalance));
  const json told = json::parse(rebalance->body, nullptr, false);
  health.past_epochs = told.value("past", std::uint64_t{0});
  health.held = told.value("held", false);
  mark_without_lease(health, told.value("without_lease", json::array()));
  const auto metrics = co_await session.ask_node(endpoint, "/metrics", limit);
  if (metrics && metrics->status == 200) mark_suspects(health, metrics->body);
  co_return health;
}

}  // namespace tarn::cli
