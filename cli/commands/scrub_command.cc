#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/tools/job_wait.h"
#include "common/base/pause.h"
#include "common/base/read_json.h"
#include "common/base/settings.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kMalformed = "the answer is malformed";

std::string scrub_time_text(const ordered_json& wall_ns) {
  if (!wall_ns.is_number() || wall_ns.get<std::int64_t>() == 0) return "never";
  return fmt::format(
      "{:%Y-%m-%d %H:%M:%S}",
      fmt::gmtime(static_cast<std::time_t>(wall_ns.get<std::int64_t>() / 1'000'000'000)));
}

std::vector<std::string> scrub_row_of(const std::string& target, const std::string& path,
                                      const ordered_json& drive) {
  const bool running = drive.at("running").get<bool>();
  const auto& seconds = drive.at("seconds_left");
  return {
      printable(target),
      printable(path),
      running ? fmt::format("{:.0f}%", drive.at("share").get<double>() * 100) : "idle",
      readable_size(drive.at("bytes").get<std::uint64_t>()),
      readable_size(drive.at("rate").get<std::uint64_t>()) + "/s",
      running && seconds.is_number()
          ? duration_text(std::chrono::seconds(static_cast<std::int64_t>(seconds.get<double>())))
          : "-",
      std::to_string(drive.at("bad_ever").get<std::uint64_t>()),
      scrub_time_text(drive.at("verified_ns"))};
}

void add_findings(const std::string& path, const ordered_json& drive, Table& table) {
  for (const auto& each : drive.at("found")) {
    const auto& slice = each.at("piece");
    table.add({scrub_time_text(each.at("found_ns")), path, each.at("file").get<std::string>(),
               each.at("bucket").get<std::string>() + "/" + each.at("object").get<std::string>(),
               slice.is_number() ? std::to_string(slice.get<int>()) : "-",
               each.at("outcome").get<std::string>()});
  }
}

void scrub_show(const ordered_json& told) {
  Table drives({"TARGET", "DRIVE", "STATE", "READ", "RATE", "TIME LEFT", "BAD", "VERIFIED (UTC)"});
  Table found({"FOUND (UTC)", "DRIVE", "FILE", "OBJECT", "SLICE", "OUTCOME"});
  for (const auto& [id, target] : told.at("targets").items()) {
    if (target.contains("error")) {
      drives.add({printable(id), "-", "?", "-", "-", "-", "-",
                  printable(target["error"].get<std::string>())});
      continue;
    }
    for (const auto& [path, drive] : target.at("drives").items()) {
      drives.add(scrub_row_of(id, path, drive));
      add_findings(path, drive, found);
    }
  }
  drives.print();
  if (told.at("bad") == 0) return;
  fmt::print("\n");
  found.print();
}

Exit status(Session& session, bool json) {
  const auto answer = session.run(session.call(http::Method::get, "/v1/cluster?what=scrub"));
  if (!answer) return complain("scrub status", answer.error());
  const Status shown = read_json(Errc::io, kMalformed, [&] {
    const auto told = ordered_json::parse(answer->body);
    if (json)
      print_json(told);
    else
      scrub_show(told);
  });
  return shown ? Exit::ok : complain("scrub status", shown.error());
}

/// Files that were found bad and have not been made again: "DRIVE/FILE of BUCKET/OBJECT".
std::vector<std::string> files_left_bad(const ordered_json& told, const std::string& target) {
  std::vector<std::string> out;
  for (const auto& [id, its] : told.at("targets").items()) {
    if ((!target.empty() && id != target) || !its.contains("drives")) continue;
    for (const auto& [path, drive] : its.at("drives").items()) {
      for (const auto& each : drive.at("found")) {
        if (each.at("outcome") != "open") continue;
        const auto object = each.at("object").get<std::string>();
        if (object.empty())
          out.push_back(path + ": " + each.at("error").get<std::string>());
        else
          out.push_back(fmt::format("{}/{} of {}/{}", path, each.at("file").get<std::string>(),
                                    each.at("bucket").get<std::string>(), object));
      }
    }
  }
  return out;
}

/// Lists the files that are bad after a scrub. Waits a while for repairs from redundancy.
Task<Result<std::vector<std::string>>> wait_for_repairs(Session& session, std::string target) {
  constexpr std::chrono::milliseconds kPollEvery{500};
  constexpr std::chrono::seconds kPatience{15};
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    CO_TRY(const auto answer, co_await session.call(http::Method::get, "/v1/cluster?what=scrub"));
    CO_TRY(auto left, read_json(Errc::io, kMalformed, [&] {
             return files_left_bad(ordered_json::parse(answer.body), target);
           }));
    if (left.empty() || std::chrono::steady_clock::now() >= until) co_return left;
    co_await pause(kPollEvery);
  }
}

Exit complain_of_bad_files(Session& session, const std::string& target) {
  const auto left = session.run(wait_for_repairs(session, target));
  if (!left) return complain("scrub start", left.error());
  for (const std::string& each : *left)
    complain("scrub start", {Errc::corrupt, "bad, and not made again: " + printable(each)});
  return left->empty() ? Exit::ok : Exit::partial;
}

Exit scrub_start(Session& session, const std::string& target, bool wait,
                 const GlobalOptions& options) {
  const ordered_json body{{"action", "start"},
                          {"value", {{"Kind", "scrub"}, {"DaemonID", target}}}};
  const auto answer = session.run(session.call(http::Method::put, "/v1/cluster", body.dump()));
  if (!answer) return complain("scrub start", answer.error());
  const JobWords words{.line = "scrub", .done = "read:", .no_wait = !wait};
  const Exit exit = tell_of_job(session, "scrub start", answer->body, words, options);
  return exit == Exit::ok && wait ? complain_of_bad_files(session, target) : exit;
}

Exit scrub_stop(Session& session) {
  const ordered_json body{{"action", "stop"}, {"value", {{"Kind", "scrub"}}}};
  const auto answer = session.run(session.call(http::Method::put, "/v1/cluster", body.dump()));
  if (!answer) return complain("scrub stop", answer.error());
  return Exit::ok;
}

}  // namespace

void add_scrub_commands(const CommandLine& line) {
  auto* group = line.app.add_subcommand(
      "scrub",
      "Reading all files and comparing them with their checksums: now, and what was found");
  group->require_subcommand(1);
  const auto target = std::make_shared<std::string>();
  const auto wait = std::make_shared<bool>(false);
  auto* begin = group->add_subcommand("start", "Read everything now, not only within scrub.period");
  begin->footer("Example:\n  tarn scrub start --wait");
  begin->add_option("--target", *target, "id of the target whose drives are read (all)");
  begin->add_flag(
      "--wait", *wait,
      "return when it has ended; 1 when that was not well, 7 when files are left that are "
      "bad and could not be made again");
  line.on_session(begin, "scrub start", [target, wait, &options = line.options](Session& session) {
    return scrub_start(session, *target, *wait, options);
  });
  auto* show_all = group->add_subcommand(
      "status", "How far each drive is, when all of it was last read, and what was bad");
  show_all->footer("Example:\n  tarn scrub status");
  line.on_session(show_all, "scrub status", [&options = line.options](Session& session) {
    return status(session, options.json);
  });
  auto* end = group->add_subcommand(
      "stop", "Go on only so fast that all has been read within scrub.period");
  end->footer("Example:\n  tarn scrub stop");
  line.on_session(end, "scrub stop", [](Session& session) { return scrub_stop(session); });
}

}  // namespace tarn::cli
