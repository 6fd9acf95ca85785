#include "common/api/copy_counts.h"

#include <array>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace tarn::api {
namespace {

constexpr std::array<std::pair<ObjectState, const char*>, 4> kObjectStates{
    {{ObjectState::full, "full"},
     {ObjectState::reduced, "reduced"},
     {ObjectState::at_risk, "at_risk"},
     {ObjectState::lost, "lost"}}};

void count(std::uint64_t& objects, std::uint64_t& all_bytes, std::uint64_t bytes) {
  ++objects;
  all_bytes += bytes;
}

}  // namespace

const char* to_string(ObjectState state) {
  for (const auto& [each, word] : kObjectStates)
    if (each == state) return word;
  return "?";
}

std::optional<ObjectState> parse_object_state(std::string_view word) {
  for (const auto& [state, its] : kObjectStates)
    if (word == its) return state;
  return std::nullopt;
}

void StateList::add(ObjectState counted, const std::string& name) {
  const bool is_reduced = state == ObjectState::reduced && counted == ObjectState::at_risk;
  if (counted == state || is_reduced) names.add(name);
}

ObjectState CopyCounts::add(std::uint64_t copies, std::uint64_t wanted, std::uint64_t bytes) {
  ++by_copies[copies];
  if (copies >= wanted) {
    count(full, full_bytes, bytes);
    return ObjectState::full;
  }
  count(reduced, reduced_bytes, bytes);
  if (copies != 1) return ObjectState::reduced;
  count(at_risk, at_risk_bytes, bytes);
  return ObjectState::at_risk;
}

ObjectState CopyCounts::add_short(std::uint64_t copies, std::uint64_t left, bool is_lost,
                                  std::uint64_t bytes) {
  ++by_copies[copies];
  if (is_lost) {
    count(lost, lost_bytes, bytes);
    return ObjectState::lost;
  }
  count(reduced, reduced_bytes, bytes);
  if (left > 0 && copies != 1) return ObjectState::reduced;
  count(at_risk, at_risk_bytes, bytes);
  return ObjectState::at_risk;
}

ObjectState CopyCounts::add_lost(std::uint64_t bytes) {
  count(lost, lost_bytes, bytes);
  return ObjectState::lost;
}

void CopyCounts::add(const CopyCounts& other) {
  full += other.full;
  reduced += other.reduced;
  at_risk += other.at_risk;
  lost += other.lost;
  full_bytes += other.full_bytes;
  reduced_bytes += other.reduced_bytes;
  at_risk_bytes += other.at_risk_bytes;
  lost_bytes += other.lost_bytes;
  drives_away += other.drives_away;
  for (const auto& [copies, objects] : other.by_copies) by_copies[copies] += objects;
}

std::optional<std::uint64_t> CopyCounts::survives() const {
  if (lost > 0) return 0;
  if (by_copies.empty()) return std::nullopt;
  const std::uint64_t fewest = by_copies.begin()->first;
  return fewest > 0 ? fewest - 1 : 0;
}

void to_json(nlohmann::json& out, const CopyCounts& counts) {
  out = {{"full", counts.full},
         {"reduced", counts.reduced},
         {"at_risk", counts.at_risk},
         {"lost", counts.lost},
         {"full_bytes", counts.full_bytes},
         {"reduced_bytes", counts.reduced_bytes},
         {"at_risk_bytes", counts.at_risk_bytes},
         {"lost_bytes", counts.lost_bytes},
         {"drives_away", counts.drives_away}};
  out["by_copies"] = nlohmann::json::object();
  for (const auto& [copies, objects] : counts.by_copies)
    out["by_copies"][std::to_string(copies)] = objects;
}

void from_json(const nlohmann::json& in, CopyCounts& counts) {
  in.at("full").get_to(counts.full);
  in.at("reduced").get_to(counts.reduced);
  in.at("at_risk").get_to(counts.at_risk);
  in.at("lost").get_to(counts.lost);
  counts.full_bytes = in.value("full_bytes", std::uint64_t{0});
  counts.reduced_bytes = in.value("reduced_bytes", std::uint64_t{0});
  counts.at_risk_bytes = in.value("at_risk_bytes", std::uint64_t{0});
  counts.lost_bytes = in.value("lost_bytes", std::uint64_t{0});
  in.at("drives_away").get_to(counts.drives_away);
  counts.by_copies.clear();
  for (const auto& [copies, objects] : in.at("by_copies").items())
    counts.by_copies[std::stoull(copies)] = objects.get<std::uint64_t>();
}

void to_json(nlohmann::json& out, const CountedCopies& counted) {
  out = counted.counts;
  out["lost_names"] = counted.lost.names();
  out["lost_more"] = counted.lost.more();
  if (counted.list) out["list"] = *counted.list;
  out["all_seen"] = counted.all_seen;
}

void from_json(const nlohmann::json& in, CountedCopies& counted) {
  in.get_to(counted.counts);
  const nlohmann::json lost{{"names", in.value("lost_names", nlohmann::json::array())},
                            {"more", in.value("lost_more", false)}};
  lost.get_to(counted.lost);
  counted.list.reset();
  if (in.contains("list")) counted.list = in.at("list").get<FirstNames>();
  counted.all_seen = in.value("all_seen", counted.counts.drives_away == 0);
}

}  // namespace tarn::api
