#include "proxy/jobs/rebuild_sum.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tarn::proxy {
namespace {

using nlohmann::json;

/// Of one kind of work of a target.
std::optional<double> seconds_of(const json& report) {
  const auto its = report.find("seconds_left");
  if (its == report.end() || !its->is_number()) return std::nullopt;
  return its->get<double>();
}

/// A target that never had copies to send says so by its state alone.
bool sends_none(const json& copies) { return copies.at("state") == "unknown"; }

std::optional<double> longer(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b) return std::nullopt;
  return std::max(*a, *b);
}

}  // namespace

std::optional<double> rebuild_seconds_left(const json& reports,
                                           const std::set<std::string>& owners) {
  std::optional<double> out = 0;
  for (const std::string& id : owners)
    if (!reports.contains(id)) out.reset();
  for (const auto& [id, report] : reports.items()) {
    if (report.contains("error") && !report.contains("state")) {
      if (owners.contains(id)) out.reset();
      continue;
    }
    out = longer(out, seconds_of(report));
    const auto copies = report.find("copies");
    if (copies != report.end() && !sends_none(*copies)) out = longer(out, seconds_of(*copies));
  }
  return out;
}

}  // namespace tarn::proxy
