#include <map>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/tools/job_wait.h"
#include "cli/tools/wait_words.h"
#include "common/base/read_json.h"
#include "common/base/settings.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

std::string size_at(const ordered_json& of, const char* key) {
  return readable_size(of.at(key).get<std::uint64_t>());
}

std::string number_at(const ordered_json& of, const char* key) {
  return std::to_string(of.at(key).get<std::uint64_t>());
}

/// Prints the cluster's answer, by `show` or as JSON.
template <class Show>
Exit rebuild_tell(Session& session, const std::string& name, const char* what, bool json,
                  Show show) {
  const auto answer =
      session.run(session.call(http::Method::get, std::string("/v1/cluster?what=") + what));
  if (!answer) return complain(name, answer.error());
  const auto complete = read_json(Errc::io, "the answer is malformed", [&] {
    const auto told = ordered_json::parse(answer->body);
    if (json)
      print_json(told);
    else
      show(told);
    return told.value("complete", true);
  });
  if (!complete) return complain(name, complete.error());
  if (*complete) return Exit::ok;
  complain(name, {Errc::unavailable, "not all could be counted: a target or a drive is away"});
  return Exit::partial;
}

std::vector<std::string> row_of_loss(std::string what, const ordered_json& loss) {
  const auto least = loss.at("sources_least").get<std::uint64_t>();
  const auto most = loss.at("sources_most").get<std::uint64_t>();
  return {std::move(what),
          number_at(loss, "objects"),
          size_at(loss, "bytes"),
          least == most ? std::to_string(least) : fmt::format("{} to {}", least, most),
          readable_seconds(loss.at("seconds_least")),
          readable_seconds(loss.at("seconds_most")),
          number_at(loss, "at_risk"),
          number_at(loss, "lost")};
}

void show_plan(const ordered_json& told) {
  Table table({"LOSS OF", "OBJECTS", "BYTES", "SOURCES", "AT LEAST", "AT MOST", "AT RISK", "LOST"});
  for (const auto& [id, target] : told.at("targets").items()) {
    if (target.contains("error")) {
      table.add({id, "?", "-", "-", "-", "-", "-", target["error"].get<std::string>()});
      continue;
    }
    table.add(row_of_loss(printable(id), target.at("loss")));
    for (const auto& [path, loss] : target.at("drives").items())
      table.add(row_of_loss("  " + printable(path), loss));
  }
  table.print();
}

/// "2: 10, 1: 35", the objects that are left by their number of missing slices.
std::string endangered(const ordered_json& report) {
  std::string out;
  const auto& by_missing = report.at("by_missing");
  for (auto its = by_missing.rbegin(); its != by_missing.rend(); ++its)
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", its.key(),
                       its.value().get<std::uint64_t>());
  return out.empty() ? "-" : out;
}

std::vector<std::string> row_of_report(std::string what, const ordered_json& report) {
  return {std::move(what),
          report.at("state").get<std::string>(),
          number_at(report, "objects"),
          size_at(report, "bytes"),
          number_at(report, "left_objects"),
          size_at(report, "left_bytes"),
          endangered(report),
          number_at(report, "incomplete"),
          size_at(report, "rate") + "/s",
          readable_seconds(report.at("seconds_left"))};
}

/// True if a target has, or had, copies to make for targets that lost a drive.
bool makes_copies(const ordered_json& report) {
  const auto its = report.find("copies");
  if (its == report.end()) return false;
  return its->at("started_ns").get<std::int64_t>() != 0 || its->at("state") == "waiting";
}

/// The numbers of all reports together.
class StatusSum {
 public:
  void add(const ordered_json& report) {
    for (auto& [key, sum] : sums_) sum += report.at(key).get<std::uint64_t>();
    for (const auto& [missing, objects] : report.at("by_missing").items())
      by_missing_[missing] += objects.get<std::uint64_t>();
  }
  /// `seconds_left`: of the cluster.
  [[nodiscard]] std::vector<std::string> row(const ordered_json& seconds_left) const {
    ordered_json all = sums_;
    all["state"] = "";
    all["by_missing"] = by_missing_;
    all["seconds_left"] = seconds_left;
    return row_of_report("all", all);
  }

 private:
  std::map<std::string, std::uint64_t> sums_{{"objects", 0},      {"bytes", 0},
                                             {"left_objects", 0}, {"left_bytes", 0},
                                             {"incomplete", 0},   {"rate", 0}};
  std::map<std::string, std::uint64_t> by_missing_;
};

void show_status(const ordered_json& told) {
  Table table({"TARGET", "STATE", "MADE", "BYTES", "LEFT", "BYTES LEFT", "BY MISSING", "WAITING",
               "RATE", "TIME LEFT"});
  StatusSum sum;
  for (const auto& [id, report] : told.at("targets").items()) {
    if (!report.contains("incarnation")) {
      table.add({id, "?", "-", "-", "-", "-", "-", "-", "-", report.value("error", "")});
      continue;
    }
    table.add(row_of_report(id, report));
    sum.add(report);
    if (!makes_copies(report)) continue;
    table.add(row_of_report("  copies for others", report.at("copies")));
    sum.add(report.at("copies"));
  }
  table.add(sum.row(told.value("seconds_left", ordered_json())));
  table.print();
  for (const std::string& line : lines_of_waits(told.value("waits", ordered_json::array())))
    fmt::print("{}\n", line);
}

Exit rebuild_start(Session& session, bool wait, const GlobalOptions& options) {
  const ordered_json body{{"action", "start"}, {"value", {{"Kind", "rebuild"}}}};
  const auto answer = session.run(session.call(http::Method::put, "/v1/cluster", body.dump()));
  if (!answer) return complain("rebuild start", answer.error());
  const JobWords words{.line = "rebuild", .done = "made whole:", .no_wait = !wait};
  return tell_of_job(session, "rebuild start", answer->body, words, options);
}

Exit rebuild_stop(Session& session) {
  const ordered_json body{{"action", "stop"}, {"value", {{"Kind", "rebuild"}}}};
  const auto answer = session.run(session.call(http::Method::put, "/v1/cluster", body.dump()));
  if (!answer) return complain("rebuild stop", answer.error());
  return Exit::ok;
}

}  // namespace

void add_rebuild_commands(const CommandLine& line) {
  auto* group = line.app.add_subcommand(
      "rebuild", "Lost slices and copies: what a loss costs, how far they are made again");
  group->require_subcommand(1);
  auto* plan = group->add_subcommand("plan", "What the loss of each target and drive would cost");
  plan->footer("Example:\n  tarn rebuild plan");
  line.on_session(plan, "rebuild plan", [&options = line.options](Session& session) {
    return rebuild_tell(session, "rebuild plan", "rebuild_plan", options.json, show_plan);
  });
  auto* status = group->add_subcommand("status", "What each target makes again, and how long yet");
  status->footer("Example:\n  tarn rebuild status");
  line.on_session(status, "rebuild status", [&options = line.options](Session& session) {
    return rebuild_tell(session, "rebuild status", "rebuild", options.json, show_status);
  });
  const auto wait = std::make_shared<bool>(false);
  auto* begin = group->add_subcommand("start", "Look now for what is missing, and make it again");
  begin->footer("Example:\n  tarn rebuild start --wait");
  begin->add_flag("--wait", *wait, "return when nothing is missing that can be made");
  line.on_session(begin, "rebuild start", [wait, &options = line.options](Session& session) {
    return rebuild_start(session, *wait, options);
  });
  auto* end =
      group->add_subcommand("stop", "Make nothing again until more is lost, or until start");
  end->footer("Example:\n  tarn rebuild stop");
  line.on_session(end, "rebuild stop", [](Session& session) { return rebuild_stop(session); });
}

}  // namespace tarn::cli
