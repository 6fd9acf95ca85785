#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/cluster/place/hrw.h"

namespace tarn::target {

/// A drive of a target, there or not, as placement sees it.
struct DrivePlace {
  std::string path;
  std::uint64_t bytes = 0;  ///< size of its file system; 0: not known

  auto operator<=>(const DrivePlace&) const = default;
};

/// Input of cluster::placement_order, in the order of `places`. A drive gets names by its size
/// beside the smallest, in steps of a quarter: drives of about one size weigh the same, and so they
/// do where a size is not known. Pure.
[[nodiscard]] std::vector<cluster::Candidate> drive_candidates(
    const std::vector<DrivePlace>& places);

/// Size by which a drive is placed. `found`: its bytes now; `known`: those last written down; 0 of
/// either: not known. Small changes move no names.
[[nodiscard]] std::uint64_t placed_size(std::uint64_t known, std::uint64_t found);

}  // namespace tarn::target
