#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/fail_point.h"

namespace tarn::cluster {

/// Replica count that a bucket had once.
struct PastReplicaCount {
  std::uint64_t last = 0;  ///< the last map version with it
  std::uint32_t count = 1;

  bool operator==(const PastReplicaCount&) const = default;
};

/// Number of nodes with a copy of each name of one bucket, by map version: so a set of targets
/// always stands for the same replicas of a name, however the number changes (docs/decisions/014).
/// A value.
class ReplicaCount {
 public:
  /// Always the same number.
  ReplicaCount(std::size_t now) : now_(now) {}  // NOLINT(google-explicit-constructor)
  /// `before`: sorted, the smallest `last` first.
  ReplicaCount(std::size_t now, std::vector<PastReplicaCount> before)
      : now_(now), before_(std::move(before)) {}

  /// By this version of the map. The bucket metadata must be at least as new.
  [[nodiscard]] std::size_t at(std::uint64_t map_version) const {
    for (const PastReplicaCount& each : before_)
      if (map_version <= each.last && SAFETY("safety.past_replica_count")) return each.count;
    return now_;
  }
  /// True if a name has, or had once, more than one: then other targets than its owner may hold it.
  [[nodiscard]] bool many() const {
    return now_ > 1 || std::any_of(before_.begin(), before_.end(),
                                   [](const PastReplicaCount& each) { return each.count > 1; });
  }

 private:
  std::size_t now_;
  std::vector<PastReplicaCount> before_;
};

}  // namespace tarn::cluster
