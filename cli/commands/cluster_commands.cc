#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "cli/commands/admin_commands.h"
#include "cli/commands/commands.h"
#include "cli/tools/cluster_health.h"
#include "common/base/pause.h"
#include "common/base/settings.h"

namespace tarn::cli {
namespace {

constexpr std::chrono::milliseconds kClusterAnswerLimit{2'000};
constexpr std::chrono::milliseconds kClusterPollEvery{200};

nlohmann::ordered_json cluster_json_of(const ClusterHealth& health) {
  auto nodes = nlohmann::ordered_json::array();
  for (const NodeHealth& node : health.nodes)
    nodes.push_back({{"id", node.id},
                     {"role", node.role},
                     {"zone", node.zone},
                     {"state", to_string(node.state)},
                     {"aside", node.aside},
                     {"reason", node.reason},
                     {"map_version", node.map_version},
                     {"url", node.url}});
  return {{"uuid", health.uuid},
          {"primary", health.primary},
          {"map_version", health.map_version},
          {"in_place", health.past_epochs == 0},
          {"nodes", nodes}};
}

/// Empty when the cluster is settled, else the reason at time `until`.
Task<std::string> wait_settled(Session& session, std::chrono::steady_clock::time_point until) {
  while (true) {
    const auto health = co_await cluster_health(session, kClusterAnswerLimit);
    std::string complaint = health ? health->complaint() : health.error().message;
    if (complaint.empty()) co_return complaint;
    if (std::chrono::steady_clock::now() + kClusterPollEvery > until) co_return complaint;
    co_await pause(kClusterPollEvery);
  }
}

Exit cluster_wait(Session& session, const std::string& timeout, bool json) {
  const auto limit = parse_duration(timeout);
  if (!limit)
    return complain("cluster wait",
                    {Errc::invalid_argument, fmt::format("--timeout: {}", limit.error().message)});
  const auto began = std::chrono::steady_clock::now();
  const std::string complaint = session.run(wait_settled(session, began + *limit));
  if (!complaint.empty())
    return complain("cluster wait",
                    {Errc::timeout, fmt::format("not settled within {}: {}", timeout, complaint)});
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  if (json) print_json({{"seconds", waited.count()}});
  return Exit::ok;
}

}  // namespace

Exit print_nodes(Session& session, const std::string& name, bool json) {
  const auto health = session.run(cluster_health(session, kClusterAnswerLimit));
  if (!health) return complain(name, health.error());
  if (json) {
    print_json(cluster_json_of(*health));
    return Exit::ok;
  }
  fmt::print("cluster {}, map version {}\n\n", printable(health->uuid), health->map_version);
  const bool has_zones = std::any_of(health->nodes.begin(), health->nodes.end(),
                                     [](const NodeHealth& node) { return !node.zone.empty(); });
  std::vector<std::string> head{"NODE", "ROLE", "STATE", "MAP", "URL", ""};
  if (has_zones) head.insert(head.begin() + 2, "ZONE");
  Table table(std::move(head));
  for (const NodeHealth& node : health->nodes) {
    std::vector<std::string> row{
        node.id,
        node.role,
        std::string(to_string(node.state)) + (node.aside.empty() ? "" : ", " + node.aside),
        node.map_version > 0 ? std::to_string(node.map_version) : "-",
        node.url,
        node.reason};
    if (has_zones) row.insert(row.begin() + 2, node.zone.empty() ? "-" : node.zone);
    table.add(std::move(row));
  }
  table.print();
  if (health->past_epochs > 0) fmt::print("\nobjects move (tarn cluster rebalance show)\n");
  return Exit::ok;
}

void add_cluster_commands(const CommandLine& line) {
  auto* group =
      line.app.add_subcommand("cluster", "Look at the cluster, wait for it, care for its state");
  group->require_subcommand(1);

  auto* show = group->add_subcommand("status", "Show every node: up or not, and its map");
  show->footer("Example:\n  tarn cluster status");
  line.on_session(show, "cluster status", [&options = line.options](Session& session) {
    return print_nodes(session, "cluster status", options.json);
  });

  auto* settle = group->add_subcommand(
      "wait",
      "Wait until every node is ready and holds the newest map, and every object is where it "
      "belongs; 124 when it takes too long");
  const auto timeout = std::make_shared<std::string>("60s");
  settle->footer("Example:\n  tarn cluster wait --timeout 5m");
  settle->add_option("--timeout", *timeout, "how long at most (60s)");
  line.on_session(settle, "cluster wait", [timeout, &options = line.options](Session& session) {
    return cluster_wait(session, *timeout, options.json);
  });
  add_config_commands(line, *group);
  add_node_commands(line, *group);
  add_decommission_command(line, *group);
  add_rebalance_commands(line, *group);
  add_metadata_commands(line, *group);
}

}  // namespace tarn::cli
