#include "target/drive/drive_places.h"

#include <algorithm>
#include <cmath>

#include "common/base/fail_point.h"

namespace tarn::target {
namespace {

constexpr double kStepsInOne = 4;
constexpr std::uint64_t kSmallChange = 8;  // an eighth

}  // namespace

std::vector<cluster::Candidate> drive_candidates(const std::vector<DrivePlace>& places) {
  std::vector<cluster::Candidate> out;
  if (places.empty()) return out;
  const auto smallest =
      std::min_element(places.begin(), places.end(), [](const auto& a, const auto& b) {
        return a.bytes < b.bytes;
      })->bytes;
  for (const DrivePlace& place : places) {
    const double times =
        smallest == 0 ? 1 : static_cast<double>(place.bytes) / static_cast<double>(smallest);
    out.push_back({cluster::placement_digest(fail_point::place_of(place.path)),
                   std::round(times * kStepsInOne) / kStepsInOne});
  }
  return out;
}

std::uint64_t placed_size(std::uint64_t known, std::uint64_t found) {
  if (found == 0) return known;
  const std::uint64_t change = known > found ? known - found : found - known;
  return known != 0 && change <= known / kSmallChange ? known : found;
}

}  // namespace tarn::target
