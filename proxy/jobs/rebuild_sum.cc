#include "proxy/jobs/rebuild_sum.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

namespace tarn::proxy {
namespace {

using nlohmann::json;

/// A target that never had copies to send shows that by its state alone.
bool sends_none(const json& copies) { return copies.at("state") == "unknown"; }

/// All work that is left.
struct Left {
  double longest = 0;  // seconds
  double bytes = 0;
  double rate = 0;  // bytes a second
  bool known = true;

  /// Adds one kind of work of a target.
  void add(const json& report) {
    const auto seconds = report.find("seconds_left");
    if (seconds == report.end() || !seconds->is_number()) {
      known = false;
      return;
    }
    const double its_rate = report.value("rate", 0.0);
    longest = std::max(longest, seconds->get<double>());
    bytes += seconds->get<double>() * its_rate;
    rate += its_rate;
  }
};

}  // namespace

std::optional<double> rebuild_seconds_left(const json& reports,
                                           const std::set<std::string>& owners) {
  Left left;
  for (const std::string& id : owners) left.known = left.known && reports.contains(id);
  for (const auto& [id, report] : reports.items()) {
    if (report.contains("error") && !report.contains("state")) {
      left.known = left.known && !owners.contains(id);
      continue;
    }
    left.add(report);
    const auto copies = report.find("copies");
    if (copies != report.end() && !sends_none(*copies)) left.add(*copies);
  }
  if (!left.known) return std::nullopt;
  const double least = left.rate > 0 ? left.bytes / left.rate : left.longest;
  return std::sqrt(left.longest * least);
}

}  // namespace tarn::proxy
