#include "common/api/copy_counts.h"

#include <string>

#include <nlohmann/json.hpp>

namespace tarn::api {
namespace {

void count(std::uint64_t& objects, std::uint64_t& all_bytes, std::uint64_t bytes) {
  ++objects;
  all_bytes += bytes;
}

}  // namespace

void CopyCounts::add(std::uint64_t copies, std::uint64_t wanted, std::uint64_t bytes) {
  if (copies >= wanted)
    count(full, full_bytes, bytes);
  else
    count(reduced, reduced_bytes, bytes);
  if (copies < wanted && copies == 1) count(at_risk, at_risk_bytes, bytes);
  ++by_copies[copies];
}

void CopyCounts::add_short(std::uint64_t copies, std::uint64_t left, bool is_lost,
                           std::uint64_t bytes) {
  if (is_lost)
    count(lost, lost_bytes, bytes);
  else
    count(reduced, reduced_bytes, bytes);
  if (!is_lost && (left == 0 || copies == 1)) count(at_risk, at_risk_bytes, bytes);
  ++by_copies[copies];
}

void CopyCounts::add_lost(std::uint64_t bytes) { count(lost, lost_bytes, bytes); }

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
  out.update(nlohmann::json(counted.lost));
  out["all_seen"] = counted.all_seen;
}

void from_json(const nlohmann::json& in, CountedCopies& counted) {
  in.get_to(counted.counts);
  in.get_to(counted.lost);
  counted.all_seen = in.value("all_seen", counted.counts.drives_away == 0);
}

}  // namespace tarn::api
