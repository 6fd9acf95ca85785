#include "cli/redundancy_command.h"

#include <memory>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/place.h"
#include "cli/printing.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

std::string number_of(const ordered_json& bucket, const char* key) {
  return std::to_string(bucket.value(key, std::uint64_t{0}));
}

/// A line on stderr for each bucket that could not be counted whole.
Exit complain_of_gaps(const ordered_json& counted) {
  Exit exit = Exit::ok;
  for (const auto& each : counted["buckets"]) {
    if (each.value("complete", true)) continue;
    std::string away;
    for (const auto& target : each.value("targets_away", ordered_json::array()))
      away += (away.empty() ? "" : ", ") + printable(target.get<std::string>());
    if (away.empty()) away = "none, but " + number_of(each, "drives_away") + " drives";
    complain("redundancy",
             {Errc::unavailable, fmt::format("the counts of {} are incomplete: targets away: {}",
                                             printable(each.value("name", "")), away)});
    exit = Exit::partial;
  }
  return exit;
}

/// Exit code 0 also when something is reduced: scripts look at the numbers. Not when they leave
/// something out.
Exit redundancy(Session& session, const std::string& bucket, bool as_json) {
  std::string path = "/v1/cluster?what=redundancy";
  if (!bucket.empty()) path += "&provider=ais&bucket=" + percent_encode(bucket);
  const auto answer = session.run(session.call(http::Method::get, path));
  if (!answer) return complain("redundancy", answer.error());
  const auto counted = ordered_json::parse(answer->body, nullptr, false);
  if (!counted.is_object() || !counted.contains("buckets"))
    return complain("redundancy", {Errc::io, "the answer has no counts"});
  if (as_json) {
    print_json(counted);
    return complain_of_gaps(counted);
  }
  Table table({"BUCKET", "COPIES", "FULL", "REDUCED", "AT RISK", "LOST", "DRIVES AWAY", "COUNTED"});
  for (const auto& each : counted["buckets"])
    table.add({printable(each.value("name", "")), number_of(each, "copies"),
               number_of(each, "full"), number_of(each, "reduced"), number_of(each, "at_risk"),
               number_of(each, "lost"), number_of(each, "drives_away"),
               each.value("complete", true) ? "all" : "in part"});
  table.print();
  return complain_of_gaps(counted);
}

}  // namespace

void add_redundancy_command(const CommandLine& line) {
  const auto bucket = std::make_shared<std::string>();
  auto* command = line.app.add_subcommand("redundancy", "Count objects by their number of copies");
  command->footer("Example:\n  tarn redundancy imagenet --json");
  command->add_option("BUCKET", *bucket, "all buckets when absent");
  line.on_session(command, "redundancy", [bucket, &options = line.options](Session& session) {
    return redundancy(session, *bucket, options.json);
  });
}

}  // namespace tarn::cli
