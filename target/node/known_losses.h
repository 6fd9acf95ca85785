#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "common/cluster/place/hand_over.h"

namespace tarn::target {

/// Targets and drives that are counted on to keep slices, as the cluster knows them at one time:
/// one that is no longer there is a loss. Pure.
struct KnownLosses {
  /// Targets between which slices are spread (standing_members()): those that are out, in
  /// maintenance, or leave, are none.
  std::set<std::string> standing;
  /// TargetStatus::lost_drives of each live target; 0: it misses none.
  std::map<std::string, std::uint64_t> lost_drives;

  /// True if more is lost than was `before`: a target is no longer among `standing`, or one
  /// believes that other drives of its are lost. A target that joins or is back is no loss, nor is
  /// a new map by itself. A drive that comes back while another one stays away counts as one: the
  /// status names no drives.
  [[nodiscard]] bool more_than(const KnownLosses& before) const;
  /// Keeps from `before` the status of targets that report none now.
  void keep_words_of(const KnownLosses& before);

  bool operator==(const KnownLosses&) const = default;
};

[[nodiscard]] KnownLosses known_losses(const cluster::OwnershipState& state);

}  // namespace tarn::target
