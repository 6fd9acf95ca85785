#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/cluster/place/ownership.h"

namespace tarn::cluster {

/// Plan of a target for one name that it holds. A receiver is offered name and generation first and
/// takes the bytes only when it has nothing as new. So a name offered by two moves once.
struct NamePlan {
  bool keep = false;              ///< true if it is a replica
  std::vector<std::string> send;  ///< replicas that may lack it; this target sends it to them
  /// The other replicas of a name that is not kept; other targets send it to them. All must have it
  /// before it goes here: a target that asks us later believes our answer that we have nothing.
  std::vector<std::string> confirm;
};

/// The plan of `self` for one name under `map`; nothing moves because a target is merely down. A
/// name that is not kept goes once all of `send` and `confirm` have it durably under the same map
/// version. No write of it may be under way here. Pure; a fresh plan is made from the newest map
/// whenever that changes, so overlapping changes converge to the last one.
[[nodiscard]] NamePlan plan_name(const Ownership& map, std::string_view self,
                                 std::uint64_t name_digest, const ReplicaCount& count);

}  // namespace tarn::cluster
