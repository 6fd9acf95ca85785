#include <nlohmann/json.hpp>

#include "cli/base/confirm.h"
#include "cli/base/printing.h"
#include "cli/commands/admin_commands.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

Exit set_primary(Session& session, const std::string& node, bool json) {
  const auto answer =
      session.run(session.call(http::Method::put, "/v1/cluster/proxy/" + percent_encode(node)));
  if (!answer) return complain("cluster set-primary", answer.error());
  if (json) print_json({{"primary", node}});
  return Exit::ok;
}

Exit shut_down(Session& session, const std::vector<std::string>& nodes, bool yes, bool json) {
  std::string what = nodes.empty() ? "the whole cluster" : "";
  for (const std::string& node : nodes) what += (what.empty() ? "" : ", ") + printable(node);
  const Status confirmed = confirm("shut down " + what, yes);
  if (!confirmed) return complain("cluster shutdown", confirmed.error());
  ordered_json message{{"action", "shutdown"}, {"name", ""}, {"value", nullptr}};
  if (!nodes.empty()) {
    message["action"] = "shutdown-node";
    message["value"] = {{"sid", ""}, {"sids", nodes}, {"skip_rebalance", true}};
  }
  const auto answer = session.run(session.call(http::Method::put, "/v1/cluster", message.dump()));
  if (!answer) return complain("cluster shutdown", answer.error());
  if (json) print_json({{"shut_down", nodes}});
  return Exit::ok;
}

}  // namespace

void add_node_commands(const CommandLine& line, CLI::App& cluster_group) {
  auto* primary = cluster_group.add_subcommand(
      "set-primary", "Choose the proxy that AIStore's clients see as primary");
  primary->footer("Example:\n  tarn cluster set-primary pAb12Cd34");
  const auto id = std::make_shared<std::string>();
  primary->add_option("NODE", *id, "id of a proxy (tarn cluster status)")->required();
  line.on_session(primary, "cluster set-primary", [id, &options = line.options](Session& session) {
    return set_primary(session, *id, options.json);
  });

  auto* stop = cluster_group.add_subcommand(
      "shutdown", "Stop nodes, or all; who supervises them may start them again");
  stop->footer("Example:\n  tarn cluster shutdown tAb12Cd34");
  const auto nodes = std::make_shared<std::vector<std::string>>();
  const auto yes = std::make_shared<bool>(false);
  stop->add_option("NODE", *nodes, "ids of nodes; none: the whole cluster");
  stop->add_flag("-y,--yes", *yes, "do not ask");
  line.on_session(stop, "cluster shutdown",
                  [nodes, yes, &options = line.options](Session& session) {
                    return shut_down(session, *nodes, *yes, options.json);
                  });
}

}  // namespace tarn::cli
