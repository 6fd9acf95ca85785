#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "cli/commands/admin_commands.h"
#include "common/base/read_json.h"
#include "common/base/settings.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

Task<Result<std::string>> rebalance_act(Session& session, std::string action) {
  const ordered_json message{
      {"action", action}, {"name", ""}, {"value", {{"ID", ""}, {"Kind", "rebalance"}}}};
  CO_TRY(const auto answer,
         co_await session.call(http::Method::put, "/v1/cluster", message.dump()));
  co_return answer.body;
}

Exit rebalance_start(Session& session, bool json) {
  const auto id = session.run(rebalance_act(session, "start"));
  if (!id) return complain("cluster rebalance start", id.error());
  if (json)
    print_json({{"id", *id}});
  else
    fmt::print("rebalance {}\n", printable(*id));
  return Exit::ok;
}

Exit rebalance_stop(Session& session, bool json) {
  const auto done = session.run(rebalance_act(session, "stop"));
  if (!done) return complain("cluster rebalance stop", done.error());
  if (json) print_json({{"stopped", true}});
  return Exit::ok;
}

/// A row of the report of a target (MoveReport); an error stands in the last column.
std::vector<std::string> rebalance_row_of(const std::string& target, const ordered_json& report) {
  if (report.contains("error"))
    return {printable(target),
            "?",
            "-",
            "-",
            "-",
            "-",
            "-",
            printable(report["error"].get<std::string>())};
  const auto& walk = report.at("walk");
  return {printable(target),
          report.at("state").get<std::string>(),
          std::to_string(walk.at("objects").get<std::uint64_t>()),
          readable_size(walk.at("bytes").get<std::uint64_t>()),
          std::to_string(walk.at("left_names").get<std::uint64_t>()),
          readable_size(report.at("rate").get<std::uint64_t>()) + "/s",
          readable_seconds(report.at("seconds_left")),
          printable(walk.value("error", ""))};
}

Exit rebalance_show(Session& session, bool json) {
  const auto answer = session.run(session.call(http::Method::get, "/v1/cluster?what=rebalance"));
  if (!answer) return complain("cluster rebalance show", answer.error());
  const Status shown = read_json(Errc::io, "the answer is malformed", [&] {
    const auto told = ordered_json::parse(answer->body);
    if (json) {
      print_json(told);
      return;
    }
    Table table({"TARGET", "STATE", "MOVED", "BYTES", "LEFT", "RATE", "TIME LEFT", ""});
    for (const auto& [id, report] : told.at("targets").items())
      table.add(rebalance_row_of(id, report));
    table.print();
    const bool in_place = told.at("past") == 0;
    fmt::print("\nmap {}: {}\n", told.at("map").get<std::uint64_t>(),
               in_place          ? "all objects are in place"
               : told.at("held") ? "stopped; objects are misplaced"
                                 : "objects are being moved");
  });
  return shown ? Exit::ok : complain("cluster rebalance show", shown.error());
}

}  // namespace

void add_rebalance_commands(const CommandLine& line, CLI::App& cluster_group) {
  auto* group = cluster_group.add_subcommand(
      "rebalance", "Moves of objects between targets: start, stop, show how far it is");
  group->require_subcommand(1);
  using Run = Exit (*)(Session&, bool);
  const auto add = [&](const char* name, const char* what, Run run) {
    auto* command = group->add_subcommand(name, what);
    command->footer(fmt::format("Example:\n  tarn cluster rebalance {}", name));
    line.on_session(
        command, std::string("cluster rebalance ") + name,
        [run, &options = line.options](Session& session) { return run(session, options.json); });
  };
  add("start", "Have every target look through all it has and move what belongs elsewhere",
      rebalance_start);
  add("stop", "Move nothing until start, or until a target joins or leaves", rebalance_stop);
  add("show", "What each target has moved, what is left, how long it takes", rebalance_show);
}

}  // namespace tarn::cli
