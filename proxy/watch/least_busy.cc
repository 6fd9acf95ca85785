#include "proxy/watch/least_busy.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/base/check.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLittle = 4;  // readers on one drive
constexpr std::uint64_t kChances = 1U << 20U;

std::uint64_t chances(const LoadReport::Load& replica) {
  return replica.serves ? std::max<std::uint64_t>(1, kChances / (1 + replica.work)) : 0;
}

/// True if `replica` has so much less to do than `first` that gathering is worth it.
bool may_gather(const LoadReport::Load& first, const LoadReport::Load& replica) {
  return first.work >= kGatherAbove * (1 + std::uint64_t{replica.work});
}

std::optional<LoadReport::OfDrive> read_drive(const json& said) {
  if (!said.is_array() || said.size() < 2 || !said[0].is_number_unsigned()) return std::nullopt;
  LoadReport::OfDrive out{said[0].get<std::uint64_t>(), {}, 1.0};
  if (said[1].is_number_unsigned()) out.work = said[1].get<std::uint32_t>();
  if (said.size() > 2 && said[2].is_number() && said[2].get<double>() > 0)
    out.weight = said[2].get<double>();
  return out;
}

}  // namespace

LoadReport::LoadReport(std::span<const OfDrive> drives) : sent_(drives.size()) {
  for (const OfDrive& drive : drives) {
    drives_.push_back({drive.digest, drive.weight});
    work_.push_back(drive.work);
  }
}

std::optional<std::size_t> LoadReport::drive_of(std::uint64_t name_digest) const {
  if (drives_.empty()) return std::nullopt;
  return cluster::placement_first(drives_, name_digest);
}

LoadReport::Load LoadReport::of(std::uint64_t name_digest) const {
  const auto drive = drive_of(name_digest);
  if (!drive) return {};
  return {work_[*drive].has_value(), work_[*drive].value_or(0), sent_[*drive].load()};
}

void LoadReport::note_sent(std::uint64_t name_digest) const {
  if (const auto drive = drive_of(name_digest)) ++sent_[*drive];
}

std::optional<Heartbeat> parse_heartbeat(std::string_view line) {
  const auto parsed = json::parse(line, nullptr, false);
  if (!parsed.is_object()) return std::nullopt;
  const auto ready = parsed.find("ready");
  if (ready == parsed.end() || !ready->is_boolean()) return std::nullopt;
  Heartbeat out{ready->get<bool>(), {}};
  if (const auto drives = parsed.find("drives"); drives != parsed.end() && drives->is_array())
    for (const json& each : *drives)
      if (const auto drive = read_drive(each)) out.drives.push_back(*drive);
  return out;
}

std::size_t least_busy(std::span<const LoadReport::Load> replicas, std::uint64_t draw,
                       bool others_gather) {
  TARN_CHECK(!replicas.empty());
  std::size_t first = 0;
  while (first < replicas.size() && !replicas[first].serves) ++first;
  if (first == replicas.size()) return 0;
  if (replicas[first].work + std::uint64_t{replicas[first].sent} < kLittle) return first;
  const auto chances_at = [&](std::size_t i) {
    const bool is_out =
        others_gather && first == 0 && i > 0 && !may_gather(replicas[0], replicas[i]);
    return is_out ? 0 : chances(replicas[i]);
  };
  std::uint64_t all = 0;
  for (std::size_t i = first; i < replicas.size(); ++i) all += chances_at(i);
  if (all == 0) return first;
  std::uint64_t lot = draw % all;
  for (std::size_t i = first; i < replicas.size(); ++i) {
    const std::uint64_t its = chances_at(i);
    if (lot < its) return i;
    lot -= its;
  }
  return first;
}

}  // namespace tarn::proxy
