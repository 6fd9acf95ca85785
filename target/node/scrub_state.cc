#include "target/node/scrub_state.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLeastRate = 1U << 20U;
// Parts of the period:
constexpr double kLongestPass = 0.8;
constexpr double kShortestPass = 0.25;
constexpr double kBetweenBegins = 0.9;
constexpr double kBetweenEnds = 0.95;
constexpr const char* kMoreError = "more files of this drive are bad than are noted";

/// True for the finding that stands for all that had to go: it names no file.
bool stands_for_more(const ScrubFinding& finding) {
  return finding.key.name.empty() && finding.file == io::FileName();
}

bool is_open(const ScrubFinding& finding) { return finding.outcome == ScrubFinding::Outcome::open; }

/// Makes room for one more: of those that have ended the oldest goes. Else an open one does, and
/// the first stands for those that went from then on.
void let_one_go(std::vector<ScrubFinding>& found, std::int64_t now_ns) {
  const auto ended = std::find_if_not(found.begin(), found.end(), is_open);
  if (ended != found.end()) {
    found.erase(ended);
    return;
  }
  if (!stands_for_more(found.front())) {
    found.front() = {};
    found.front().error = kMoreError;
  }
  found.front().found_ns = now_ns;
  found.erase(found.begin() + 1);
}

std::int64_t part_of(std::chrono::nanoseconds period, double share) {
  return static_cast<std::int64_t>(static_cast<double>(period.count()) * share);
}

json encode_finding(const ScrubFinding& each) {
  return {raw(each.key.bucket),
          each.key.name,
          each.key.set,
          each.key.index,
          each.slice,
          each.file.directory,
          each.file.id,
          each.found_ns,
          each.ended_ns,
          static_cast<int>(each.outcome),
          each.error};
}

ScrubFinding finding_from(const json& in) {
  ScrubFinding out;
  out.key.bucket = BucketId{in.at(0).get<std::uint64_t>()};
  in.at(1).get_to(out.key.name);
  in.at(2).get_to(out.key.set);
  in.at(3).get_to(out.key.index);
  in.at(4).get_to(out.slice);
  in.at(5).get_to(out.file.directory);
  in.at(6).get_to(out.file.id);
  in.at(7).get_to(out.found_ns);
  in.at(8).get_to(out.ended_ns);
  out.outcome = static_cast<ScrubFinding::Outcome>(std::min(in.at(9).get<int>(), 2));
  in.at(10).get_to(out.error);
  return out;
}

}  // namespace

std::string_view to_string(ScrubFinding::Outcome outcome) {
  switch (outcome) {
    case ScrubFinding::Outcome::open: return "open";
    case ScrubFinding::Outcome::repaired: return "repaired";
    case ScrubFinding::Outcome::gone: return "gone";
  }
  return "?";
}

void ScrubState::begin(const std::string& for_job, std::uint64_t cost_of_all, std::int64_t now_ns) {
  job = for_job;
  began_ns = now_ns;
  if (first_ns == 0) first_ns = now_ns;
  at = {};
  files = bytes = bad = cost = 0;
  whole = cost_of_all;
}

void ScrubState::passed(ScrubMark mark, std::uint64_t file_bytes) {
  at = std::move(mark);
  ++files;
  bytes += file_bytes;
  cost += file_bytes + kFileCost;
}

void ScrubState::add(ScrubFinding finding) {
  std::erase_if(found, [&](const ScrubFinding& each) { return each.file == finding.file; });
  if (found.size() >= kFindingsMax) let_one_go(found, finding.found_ns);
  found.push_back(std::move(finding));
  ++bad;
  ++bad_ever;
}

void ScrubState::end(std::int64_t now_ns) {
  // Whatever went before this pass began, it has found again, if it is bad still.
  for (ScrubFinding& each : found) {
    if (!stands_for_more(each) || !is_open(each) || each.found_ns >= began_ns) continue;
    each.outcome = ScrubFinding::Outcome::gone;
    each.ended_ns = now_ns;
  }
  verified_ns = began_ns;
  ended_ns = now_ns;
  began_ns = 0;
  at = {};
}

std::string encode(const ScrubState& state) {
  json found = json::array();
  for (const ScrubFinding& each : state.found) found.push_back(encode_finding(each));
  const json out{
      {"job", state.job},
      {"began", state.began_ns},
      {"first", state.first_ns},
      {"ended", state.ended_ns},
      {"verified", state.verified_ns},
      {"at", {state.at.bucket, state.at.slices, state.at.name, state.at.set, state.at.index}},
      {"files", state.files},
      {"bytes", state.bytes},
      {"bad", state.bad},
      {"cost", state.cost},
      {"whole", state.whole},
      {"bad_ever", state.bad_ever},
      {"found", std::move(found)}};
  std::string text;
  json::to_msgpack(out, text);
  return text;
}

Result<ScrubState> scrub_state_from(std::string_view text) {
  return read_json(Errc::corrupt, "state of a scrub", [&]() -> Result<ScrubState> {
    const json in = json::from_msgpack(text.begin(), text.end());
    ScrubState out;
    in.at("job").get_to(out.job);
    in.at("began").get_to(out.began_ns);
    in.at("first").get_to(out.first_ns);
    in.at("ended").get_to(out.ended_ns);
    in.at("verified").get_to(out.verified_ns);
    const json& at = in.at("at");
    at.at(0).get_to(out.at.bucket);
    at.at(1).get_to(out.at.slices);
    at.at(2).get_to(out.at.name);
    at.at(3).get_to(out.at.set);
    at.at(4).get_to(out.at.index);
    in.at("files").get_to(out.files);
    in.at("bytes").get_to(out.bytes);
    in.at("bad").get_to(out.bad);
    in.at("cost").get_to(out.cost);
    in.at("whole").get_to(out.whole);
    in.at("bad_ever").get_to(out.bad_ever);
    for (const json& each : in.at("found")) out.found.push_back(finding_from(each));
    return out;
  });
}

std::int64_t next_scrub_ns(const ScrubState& state, std::chrono::nanoseconds period) {
  if (state.verified_ns == 0) return 0;
  // At the least rate; `whole` is that of the last pass.
  const auto slowest = static_cast<std::int64_t>(static_cast<double>(state.whole) /
                                                 static_cast<double>(kLeastRate) * 1e9);
  const std::int64_t lasts = std::min(slowest, part_of(period, kLongestPass));
  return std::min(state.verified_ns + part_of(period, kBetweenBegins),
                  state.ended_ns + part_of(period, kBetweenEnds) - lasts);
}

std::int64_t scrub_deadline_ns(const ScrubState& state, std::chrono::nanoseconds period) {
  const std::int64_t longest = state.began_ns + part_of(period, kLongestPass);
  if (state.verified_ns == 0) return longest;
  return std::min(longest, state.ended_ns + part_of(period, kBetweenEnds));
}

std::uint64_t scrub_rate_needed(const ScrubState& state, std::chrono::nanoseconds period,
                                std::int64_t now_ns) {
  const double whole = static_cast<double>(std::max(state.whole, state.cost));
  const double most = whole / (static_cast<double>(part_of(period, kShortestPass)) / 1e9);
  const double seconds = static_cast<double>(scrub_deadline_ns(state, period) - now_ns) / 1e9;
  const double left = whole - static_cast<double>(state.cost);
  const double needed = seconds > 0 ? std::min(left / seconds, most) : most;
  return std::max(kLeastRate, static_cast<std::uint64_t>(needed));
}

}  // namespace tarn::target
