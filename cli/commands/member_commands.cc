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

constexpr std::chrono::milliseconds kMemberAnswerLimit{2'000};
constexpr std::chrono::milliseconds kMemberPollEvery{200};

/// Arguments of a change of members.
struct MemberWords {
  std::vector<std::string> nodes;
  bool no_rebalance = false;
  bool rm_user_data = false;
  bool no_shutdown = false;
  bool force = false;
  bool yes = false;
  bool wait = false;
  std::string timeout = "24h";
};

/// AIStore's action, the state that has to hold when it is done, and its options.
struct MemberCommand {
  const char* name;
  const char* action;
  const char* what;
  enum class Done : std::uint8_t { in_place, gone, ended, down } done;
  bool asks = false;  ///< before a step that cannot be undone
};

Status member_confirmed(const MemberCommand& command, const MemberWords& words) {
  return confirm(fmt::format("{} {}", command.name, fmt::join(words.nodes, ", ")),
                 !command.asks || words.yes);
}

/// Reason why the change is not complete yet; empty: it is.
std::string missing(const MemberCommand& command, const MemberWords& words,
                    const ClusterHealth& health) {
  if (command.done != MemberCommand::Done::in_place) {
    for (const NodeHealth& node : health.nodes) {
      if (std::find(words.nodes.begin(), words.nodes.end(), node.id) == words.nodes.end()) continue;
      if (command.done != MemberCommand::Done::down)
        return fmt::format("{} {} is in the cluster map still", node.role, node.id);
      if (node.state != NodeHealth::State::down)
        return fmt::format("{} {} runs still", node.role, node.id);
    }
    return "";
  }
  if (words.no_rebalance || health.past_epochs == 0) return "";
  return health.held ? "objects are misplaced, and rebalance is stopped"
                     : "objects have not all moved yet";
}

/// Places of the nodes that end their processes when they have left: they are not in the map then.
Task<std::vector<std::string>> who_will_end(Session& session, MemberCommand command,
                                            MemberWords words) {
  std::vector<std::string> urls;
  if (command.done != MemberCommand::Done::ended || words.no_shutdown) co_return urls;
  const auto health = co_await cluster_health(session, kMemberAnswerLimit);
  if (!health) co_return urls;
  for (const NodeHealth& node : health->nodes)
    if (std::find(words.nodes.begin(), words.nodes.end(), node.id) != words.nodes.end())
      urls.push_back(node.url);
  co_return urls;
}

Task<std::string> first_that_runs(Session& session, std::vector<std::string> urls) {
  for (const std::string& url : urls) {
    const auto answer = co_await session.ask_node(url, "/healthz", kMemberAnswerLimit);
    if (answer) co_return fmt::format("the process at {} runs still", url);
  }
  co_return "";
}

Task<Status> wait_done(Session& session, MemberCommand command, MemberWords words,
                       std::vector<std::string> ends, std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (true) {
    const auto health = co_await cluster_health(session, kMemberAnswerLimit);
    std::string complaint = health ? missing(command, words, *health) : health.error().message;
    if (complaint.empty()) complaint = co_await first_that_runs(session, ends);
    if (complaint.empty()) co_return Status();
    if (std::chrono::steady_clock::now() > until)
      co_return fail(Errc::timeout, "not done within {}: {}", words.timeout, complaint);
    co_await pause(kMemberPollEvery);
  }
}

Task<Result<std::string>> change(Session& session, MemberCommand command, MemberWords words) {
  const ordered_json message{{"action", command.action},
                             {"name", ""},
                             {"value",
                              {{"sid", ""},
                               {"sids", words.nodes},
                               {"skip_rebalance", words.no_rebalance},
                               {"rm_user_data", words.rm_user_data},
                               {"keep_initial_config", false},
                               {"no_shutdown", words.no_shutdown}}}};
  const std::string path = words.force ? "/v1/cluster?frc=true" : "/v1/cluster";
  CO_TRY(const auto answer, co_await session.call(http::Method::put, path, message.dump()));
  co_return answer.body;
}

Exit run(Session& session, const MemberCommand& command, const MemberWords& words, bool json) {
  const std::string name = std::string("node ") + command.name;
  const auto limit = parse_duration(words.timeout);
  if (!limit)
    return complain(name,
                    {Errc::invalid_argument, fmt::format("--timeout: {}", limit.error().message)});
  const Status confirmed = member_confirmed(command, words);
  if (!confirmed) return complain(name, confirmed.error());
  std::vector<std::string> ends;
  if (words.wait) ends = session.run(who_will_end(session, command, words));
  const auto rebalance = session.run(change(session, command, words));
  if (!rebalance) return complain(name, rebalance.error());
  if (words.wait) {
    const Status done = session.run(wait_done(session, command, words, ends, *limit));
    if (!done) return complain(name, done.error());
  }
  if (json)
    print_json({{"nodes", words.nodes}, {"rebalance", *rebalance}});
  else if (!rebalance->empty() && !words.wait)
    fmt::print("rebalance {} (tarn cluster rebalance show)\n", printable(*rebalance));
  return Exit::ok;
}

struct Added {
  CLI::App* command;
  std::shared_ptr<MemberWords> words;
};

Added add(const CommandLine& line, CLI::App& group, const MemberCommand& its) {
  const std::string name(its.name);
  auto* command = group.add_subcommand(name.substr(name.rfind(' ') + 1), its.what);
  command->footer(fmt::format("Example:\n  tarn node {} tAb12Cd34 --wait", its.name));
  const auto words = std::make_shared<MemberWords>();
  command->add_option("NODE", words->nodes, "ids of nodes (tarn cluster status)")->required();
  command->add_flag("--wait", words->wait, "return when it is done, all objects moved");
  command->add_option("--timeout", words->timeout, "how long to wait at most (24h)");
  line.on_session(command, "node " + name, [its, words, &options = line.options](Session& session) {
    return run(session, its, *words, options.json);
  });
  return {command, words};
}

Task<Result<std::string>> join(Session& session, std::string url) {
  const ordered_json entry{{"daemon_type", ""}, {"intra_control_net", {{"direct_url", url}}}};
  CO_TRY(const auto answer,
         co_await session.call(http::Method::post, "/v1/cluster/join-by-admin", entry.dump()));
  co_return answer.body;
}

void add_join(const CommandLine& line, CLI::App& group) {
  auto* command = group.add_subcommand(
      "join", "Take a node that was decommissioned, and runs, into the cluster again");
  command->footer("Example:\n  tarn node join http://10.0.0.7:8201");
  const auto url = std::make_shared<std::string>();
  command->add_option("URL", *url, "where it listens to other nodes (node.json: internal)")
      ->required();
  line.on_session(command, "node join", [url, &options = line.options](Session& session) {
    const auto answer = session.run(join(session, *url));
    if (!answer) return complain("node join", answer.error());
    const auto told = ordered_json::parse(*answer, nullptr, false);
    const std::string id = told.is_object() ? told.value("daemon_id", "") : "";
    if (options.json)
      print_json({{"node", id}});
    else
      fmt::print("{}\n", printable(id));
    return Exit::ok;
  });
}

}  // namespace

void add_member_commands(const CommandLine& line) {
  using Done = MemberCommand::Done;
  constexpr const char* kLeave = "its objects stay where they are, and answer 503 without it";
  auto* group = line.app.add_subcommand("node", "Put nodes aside, take them out of the cluster");
  group->require_subcommand(1);

  auto* show = group->add_subcommand("ls", "List all nodes: up or not, and their map");
  show->footer("Example:\n  tarn node ls");
  line.on_session(show, "node ls", [&options = line.options](Session& session) {
    return print_nodes(session, "node ls", options.json);
  });

  auto* maintenance = group->add_subcommand("maintenance", "Put nodes aside for a while");
  maintenance->require_subcommand(1);
  const auto start =
      add(line, *maintenance,
          {"maintenance start", "start-maintenance",
           "Move everything away from nodes and give them nothing new", Done::in_place});
  const auto stop =
      add(line, *maintenance,
          {"maintenance stop", "stop-maintenance",
           "Have nodes take part again; also while they are decommissioned", Done::in_place});
  for (const auto& each : {start, stop})
    each.command->add_flag("--no-rebalance", each.words->no_rebalance, "move nothing now");

  const auto leave =
      add(line, *group,
          {"decommission", "decommission-node",
           "Move everything away from nodes, take them out of the cluster, stop them", Done::ended,
           true});
  leave.command->add_flag("--no-shutdown", leave.words->no_shutdown, "their processes stay");
  leave.command->add_flag("--rm-user-data", leave.words->rm_user_data,
                          "erase what is still stored there when they are out");
  leave.command->add_flag("--no-rebalance", leave.words->no_rebalance,
                          "move nothing; refused while there are objects on them");
  leave.command->add_flag("--force", leave.words->force,
                          "although objects are lost with --no-rebalance");

  const auto end = add(line, *group,
                       {"shutdown", "shutdown-node",
                        "Move everything away from nodes, then stop them; they stay in maintenance",
                        Done::down, true});
  end.command->add_flag("--no-rebalance", end.words->no_rebalance, kLeave);

  const auto remove =
      add(line, *group,
          {"remove-unsafe", "rm-unsafe",
           "Take nodes out of the cluster at once; what only they hold is lost", Done::gone, true});
  for (const auto& each : {leave, end, remove})
    each.command->add_flag("-y,--yes", each.words->yes, "do not ask");
  add_join(line, *group);
  add_safe_to_stop_command(line, *group);
}

}  // namespace tarn::cli
