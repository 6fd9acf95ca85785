#include "common/api/rebuild_plan.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tarn::api {
namespace {

using nlohmann::json;

std::optional<double> seconds_at(std::uint64_t bytes, std::uint64_t rate) {
  if (bytes == 0) return 0;
  if (rate == 0) return std::nullopt;
  return static_cast<double>(bytes) / static_cast<double>(rate);
}

json number(const std::optional<double>& value) { return value ? json(*value) : json(); }

}  // namespace

void to_json(json& out, const Stake& stake) {
  out = {stake.k, stake.m, stake.together, stake.objects, stake.bytes};
}

void from_json(const json& in, Stake& stake) {
  in.at(0).get_to(stake.k);
  in.at(1).get_to(stake.m);
  in.at(2).get_to(stake.together);
  in.at(3).get_to(stake.objects);
  in.at(4).get_to(stake.bytes);
}

void to_json(json& out, const Loss& loss) {
  out = {{"objects", loss.objects},
         {"bytes", loss.bytes},
         {"read_bytes", loss.read},
         {"sources_least", loss.sources_least},
         {"sources_most", loss.sources_most},
         {"at_risk", loss.at_risk},
         {"lost", loss.lost},
         {"lost_bytes", loss.lost_bytes},
         {"seconds_least", number(loss.seconds_least)},
         {"seconds_most", number(loss.seconds_most)}};
}

Loss cost_of_loss(const std::vector<Stake>& stakes, const RebuildRates& rates) {
  Loss out;
  for (const Stake& stake : stakes) {
    if (stake.together > stake.m) {
      out.lost += stake.objects;
      out.lost_bytes += stake.bytes;
      continue;
    }
    // All slices of one object that went are made at once, from k that are read once.
    out.objects += stake.objects;
    out.bytes += stake.bytes;
    out.read += stake.bytes / std::max(1U, stake.together) * stake.k;
    out.sources_least = out.sources_least == 0 ? stake.k : std::min(out.sources_least, stake.k);
    out.sources_most = std::max(out.sources_most, stake.k);
    if (stake.together == stake.m) out.at_risk += stake.objects;
  }
  out.seconds_least =
      rates.ceiling == 0 && out.bytes > 0 ? std::nullopt : seconds_at(out.bytes, rates.ceiling);
  // Targets that are read from take part in the floor, too; above it some reads pass uncounted.
  out.seconds_most = seconds_at(out.bytes + out.read, rates.floor);
  return out;
}

}  // namespace tarn::api
