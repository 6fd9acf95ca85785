#include "common/api/copy_counts.h"

#include <string>

#include <nlohmann/json.hpp>

namespace tarn::api {

void CopyCounts::add(std::uint64_t copies, std::uint64_t wanted) {
  ++(copies >= wanted ? full : reduced);
  if (copies < wanted && copies == 1) ++at_risk;
  ++by_copies[copies];
}

void CopyCounts::add(const CopyCounts& other) {
  full += other.full;
  reduced += other.reduced;
  at_risk += other.at_risk;
  lost += other.lost;
  drives_away += other.drives_away;
  for (const auto& [copies, objects] : other.by_copies) by_copies[copies] += objects;
}

void to_json(nlohmann::json& out, const CopyCounts& counts) {
  out = {{"full", counts.full},
         {"reduced", counts.reduced},
         {"at_risk", counts.at_risk},
         {"lost", counts.lost},
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
  in.at("drives_away").get_to(counts.drives_away);
  counts.by_copies.clear();
  for (const auto& [copies, objects] : in.at("by_copies").items())
    counts.by_copies[std::stoull(copies)] = objects.get<std::uint64_t>();
}

}  // namespace tarn::api
