#include "cli/commands/redundancy_command.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/base/place.h"
#include "cli/base/printing.h"
#include "cli/tools/wait_words.h"
#include "common/base/clock.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

struct Asked {
  std::string bucket;
  std::string lost_after;
  std::string list;   ///< a state
  std::string after;  ///< of that list
};

std::string redundancy_number_of(const ordered_json& bucket, const char* key) {
  return std::to_string(bucket.value(key, std::uint64_t{0}));
}

/// "12 (3.4MiB)"; "0".
std::string objects_and_bytes(const ordered_json& bucket, const std::string& key) {
  const auto objects = bucket.value(key, std::uint64_t{0});
  if (objects == 0) return "0";
  const auto bytes = bucket.value(key + "_bytes", std::uint64_t{0});
  return fmt::format("{} ({})", objects, readable_size(bytes));
}

/// Age of the oldest verification of all files: "20h ago", "never".
std::string age_text(const ordered_json& wall_ns) {
  if (!wall_ns.is_number()) return "never";
  const WallTime since(wall_ns.get<std::int64_t>());
  const WallTime age = std::max(WallTime(0), system_clock().wall_time() - since);
  constexpr std::array<std::pair<std::chrono::seconds, char>, 3> kUnits{
      {{std::chrono::hours(24), 'd'},
       {std::chrono::hours(1), 'h'},
       {std::chrono::minutes(1), 'm'}}};
  for (const auto& [unit, letter] : kUnits)
    if (age >= 2 * unit) return fmt::format("{}{} ago", age / unit, letter);
  return fmt::format("{}s ago", age / std::chrono::seconds(1));
}

/// "photos", "s3://photos".
std::string bucket_display(const ordered_json& bucket) {
  return Place{bucket.value("name", ""), "", bucket.value("provider", "ais")}.bucket_display();
}

/// Names in the answer, a line each, and the command that shows the rest.
void print_lost(const ordered_json& bucket) {
  const std::string name = printable(bucket_display(bucket));
  const auto lost = bucket.value("lost_names", ordered_json::array());
  for (const auto& each : lost)
    fmt::print("lost: {}/{}\n", name, printable(each.get<std::string>()));
  if (!bucket.value("lost_more", false) || lost.empty()) return;
  fmt::print("more are lost: tarn redundancy {} --lost-after '{}'\n", name,
             printable(lost.back().get<std::string>()));
}

/// Reasons why objects of the bucket are not whole again, a line each.
void print_waits(const ordered_json& bucket) {
  const std::string name = printable(bucket_display(bucket));
  for (const std::string& line : lines_of_waits(bucket.value("waits", ordered_json::array())))
    fmt::print("{}: {}\n", name, line);
}

/// "1 drive", "2 drives".
std::string count_of(const ordered_json& number, std::string_view noun) {
  const auto count = number.get<std::uint64_t>();
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// Hardware that may go at once without a loss: "2 drives, 1 node", with ", 1 zone" where placement
/// uses zones; "-" of a bucket without objects.
std::string what_it_survives(const ordered_json& bucket) {
  if (bucket.value("provider", "ais") != "ais") return "any: fetched again";
  const auto drives = bucket.value("survives_drives", ordered_json());
  const auto nodes = bucket.value("survives_nodes", ordered_json());
  if (!drives.is_number() || !nodes.is_number()) return "-";
  const auto zones = bucket.value("survives_zones", ordered_json());
  return count_of(drives, "drive") + ", " + count_of(nodes, "node") +
         (zones.is_number() ? ", " + count_of(zones, "zone") : "");
}

/// A line on stderr for each bucket that could not be counted whole.
Exit complain_of_gaps(const ordered_json& counted) {
  Exit exit = Exit::ok;
  for (const auto& each : counted["buckets"]) {
    if (each.value("complete", true)) continue;
    std::string away;
    for (const auto& target : each.value("targets_away", ordered_json::array()))
      away += (away.empty() ? "" : ", ") + printable(target.get<std::string>());
    if (away.empty()) away = "none, but " + redundancy_number_of(each, "drives_away") + " drives";
    complain("redundancy",
             {Errc::unavailable, fmt::format("the counts of {} are incomplete: targets away: {}",
                                             printable(bucket_display(each)), away)});
    exit = Exit::partial;
  }
  return exit;
}

/// "&provider=..&bucket=..", or the error of a name that is none.
Result<std::string> bucket_query(const std::string& name) {
  TRY(const Place bucket, parse_bucket(name));
  return "&provider=" + bucket.provider + "&bucket=" + percent_encode(bucket.bucket);
}

/// Answer to a query about redundancy, which has `key`.
Result<ordered_json> ask_redundancy(Session& session, std::string path, const char* key) {
  TRY(const auto answer, session.run(session.call(http::Method::get, std::move(path))));
  auto told = ordered_json::parse(answer.body, nullptr, false);
  if (!told.is_object() || !told.contains(key)) return fail(Errc::io, "the answer has no {}", key);
  return told;
}

/// A name a line, page by page; with `as_json` one page as the API has it.
Exit list_names(Session& session, const Asked& asked, bool as_json) {
  const auto bucket = bucket_query(asked.bucket);
  if (!bucket) return complain("redundancy", bucket.error());
  const std::string path = "/v1/cluster?what=redundancy" + *bucket + "&list=" + asked.list;
  std::string next = percent_encode(asked.after);
  Exit exit = Exit::ok;
  while (true) {
    std::string page = path;
    if (!next.empty()) page.append("&after=").append(next);
    const auto answer = ask_redundancy(session, std::move(page), "names");
    if (!answer) return complain("redundancy", answer.error());
    const ordered_json& told = *answer;
    if (as_json) {
      print_json(told);
    } else {
      for (const auto& name : told["names"]) fmt::print("{}\n", printable(name.get<std::string>()));
    }
    if (exit == Exit::ok) exit = complain_of_gaps({{"buckets", ordered_json::array({told})}});
    if (as_json || !told.value("more", false)) return exit;
    const auto last = told.value("next", "");
    if (last.empty() || last == next)
      return complain("redundancy",
                      {Errc::io, "the answer says that there are more names, not which"});
    next = last;
  }
}

/// Exit code 0 also when something is reduced: scripts look at the numbers. Not when they leave
/// something out.
Exit redundancy(Session& session, const Asked& asked, bool as_json) {
  if (!asked.list.empty()) return list_names(session, asked, as_json);
  std::string path = "/v1/cluster?what=redundancy";
  if (!asked.bucket.empty()) {
    const auto bucket = bucket_query(asked.bucket);
    if (!bucket) return complain("redundancy", bucket.error());
    path += *bucket;
  }
  if (!asked.lost_after.empty()) path += "&lost_after=" + percent_encode(asked.lost_after);
  const auto answer = ask_redundancy(session, std::move(path), "buckets");
  if (!answer) return complain("redundancy", answer.error());
  const ordered_json& counted = *answer;
  if (as_json) {
    print_json(counted);
    return complain_of_gaps(counted);
  }
  Table table({"BUCKET", "COPIES", "FULL", "REDUCED", "AT RISK", "LOST", "SURVIVES", "VERIFIED",
               "DRIVES AWAY", "COUNTED"});
  for (const auto& each : counted["buckets"])
    table.add({bucket_display(each), redundancy_number_of(each, "copies"),
               objects_and_bytes(each, "full"), objects_and_bytes(each, "reduced"),
               objects_and_bytes(each, "at_risk"), objects_and_bytes(each, "lost"),
               what_it_survives(each), age_text(each.value("oldest_verified_ns", ordered_json())),
               redundancy_number_of(each, "drives_away"),
               each.value("complete", true) ? "all" : "in part"});
  table.print();
  for (const auto& each : counted["buckets"]) {
    print_lost(each);
    print_waits(each);
  }
  return complain_of_gaps(counted);
}

}  // namespace

void add_redundancy_command(const CommandLine& line) {
  const auto asked = std::make_shared<Asked>();
  auto* command = line.app.add_subcommand(
      "redundancy", "Count objects by how much of each is there, and name what is lost");
  command->footer(
      "Examples:\n  tarn redundancy imagenet --json\n"
      "  tarn redundancy imagenet --list at_risk | xargs -d '\\n' -n 1 echo");
  auto* bucket = command->add_option("BUCKET", asked->bucket, "all buckets when absent");
  command
      ->add_option("--lost-after", asked->lost_after,
                   "name the lost objects after this one; an answer names 10,000 of a bucket, or "
                   "1,000 of each of all")
      ->needs(bucket);
  auto* list = command
                   ->add_option("--list", asked->list,
                                "name the objects in this state, one a line: full, reduced (with "
                                "those at risk), at_risk or lost")
                   ->check(CLI::IsMember({"full", "reduced", "at_risk", "lost"}))
                   ->needs(bucket);
  command->add_option("--after", asked->after, "only those after this name")->needs(list);
  line.on_session(command, "redundancy", [asked, &options = line.options](Session& session) {
    return redundancy(session, *asked, options.json);
  });
}

}  // namespace tarn::cli
