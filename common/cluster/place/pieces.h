#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/fail_point.h"

namespace tarn::cluster {

/// A number of pieces that the names of a bucket had once.
struct PiecesBefore {
  std::uint64_t last = 0;  ///< the last map version with it
  std::uint32_t pieces = 1;

  bool operator==(const PiecesBefore&) const = default;
};

/// In how many pieces (copies on nodes) the names of one bucket lie, by map version: so a set of
/// targets always stands for the same homes of a name, however the number changes
/// (docs/decisions/014). A value.
class Pieces {
 public:
  /// Always the same number.
  Pieces(std::size_t now) : now_(now) {}  // NOLINT(google-explicit-constructor)
  /// `before`: sorted, the smallest `last` first.
  Pieces(std::size_t now, std::vector<PiecesBefore> before)
      : now_(now), before_(std::move(before)) {}

  /// By this version of the map. The bucket metadata must be at least as new.
  [[nodiscard]] std::size_t at(std::uint64_t map_version) const {
    for (const PiecesBefore& each : before_)
      if (map_version <= each.last && SAFETY("safety.pieces_then")) return each.pieces;
    return now_;
  }
  /// True if a name has, or had once, more than one: then other targets than its owner may hold it.
  [[nodiscard]] bool many() const {
    return now_ > 1 || std::any_of(before_.begin(), before_.end(),
                                   [](const PiecesBefore& each) { return each.pieces > 1; });
  }

 private:
  std::size_t now_;
  std::vector<PiecesBefore> before_;
};

}  // namespace tarn::cluster
