#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "cli/base/confirm.h"
#include "cli/base/printing.h"
#include "cli/commands/admin_commands.h"
#include "cli/tools/cluster_health.h"
#include "common/base/pause.h"
#include "common/base/settings.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kDecommissionName = "cluster decommission";
constexpr std::chrono::milliseconds kDecommissionAnswerLimit{2'000};
constexpr std::chrono::milliseconds kDecommissionPollEvery{200};

struct EndWords {
  bool rm_user_data = false;
  bool force = false;
  bool yes = false;
  std::string timeout = "1h";
};

Status decommission_confirmed(const EndWords& words) {
  return confirm(words.rm_user_data ? "end the whole cluster and ERASE all that is stored in it"
                                    : "end the whole cluster",
                 words.yes);
}

Task<Result<std::string>> decommission_ask(Session& session, EndWords words) {
  const ordered_json message{
      {"action", "decommission"}, {"name", ""}, {"value", {{"rm_user_data", words.rm_user_data}}}};
  const std::string path = words.force ? "/v1/cluster?frc=true" : "/v1/cluster";
  CO_TRY(const auto answer, co_await session.call(http::Method::put, path, message.dump()));
  std::string said = answer.body;
  while (!said.empty() && said.back() == '\n') said.pop_back();
  co_return said;
}

Task<std::string> first_that_answers(Session& session, std::vector<NodeHealth> nodes) {
  for (const NodeHealth& node : nodes) {
    const auto answer = co_await session.ask_node(node.url, "/healthz", kDecommissionAnswerLimit);
    if (answer) co_return fmt::format("{} {}", node.role, node.id);
  }
  co_return "";
}

/// The primary ends after all other nodes: no other node needs to be believed.
Task<Status> decommission_wait_gone(Session& session, std::vector<NodeHealth> nodes,
                                    std::string timeout, std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (true) {
    const std::string runs = co_await first_that_answers(session, nodes);
    if (runs.empty()) co_return Status();
    if (std::chrono::steady_clock::now() > until)
      co_return fail(Errc::timeout,
                     "{} runs still after {}: the logs of the proxies say whom the cluster waits "
                     "for; ask again, with --force to leave out who is down",
                     runs, timeout);
    co_await pause(kDecommissionPollEvery);
  }
}

Exit end_cluster(Session& session, const EndWords& words, bool json) {
  const auto limit = parse_duration(words.timeout);
  if (!limit)
    return complain(kDecommissionName,
                    {Errc::invalid_argument, fmt::format("--timeout: {}", limit.error().message)});
  const Status meant = decommission_confirmed(words);
  if (!meant) return complain(kDecommissionName, meant.error());
  auto health = session.run(cluster_health(session, kDecommissionAnswerLimit));
  if (!health) return complain(kDecommissionName, health.error());
  const auto said = session.run(decommission_ask(session, words));
  if (!said) return complain(kDecommissionName, said.error());
  std::erase_if(health->nodes,
                [](const NodeHealth& node) { return node.state == NodeHealth::State::down; });
  const Status gone =
      session.run(decommission_wait_gone(session, health->nodes, words.timeout, *limit));
  if (!gone) return complain(kDecommissionName, gone.error());
  if (json)
    print_json({{"cluster", health->uuid}, {"said", *said}});
  else if (!said->empty())
    fmt::print("{}\n", printable(*said));
  return Exit::ok;
}

}  // namespace

void add_decommission_command(const CommandLine& line, CLI::App& cluster_group) {
  auto* command = cluster_group.add_subcommand(
      "decommission", "End the whole cluster for good; drives keep what is on them");
  command->footer("Example:\n  tarn cluster decommission --yes");
  const auto words = std::make_shared<EndWords>();
  command->add_flag("--rm-user-data", words->rm_user_data,
                    "erase all that is stored, and empty the drives");
  command->add_flag("--force", words->force, "leave out nodes that are down");
  command->add_flag("-y,--yes", words->yes, "do not ask");
  command->add_option("--timeout", words->timeout, "how long to wait for the end at most (1h)");
  line.on_session(command, kDecommissionName, [words, &options = line.options](Session& session) {
    return end_cluster(session, *words, options.json);
  });
}

}  // namespace tarn::cli
