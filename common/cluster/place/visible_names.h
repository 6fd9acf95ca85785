#pragma once

#include <functional>
#include <string>

#include "common/cluster/place/ownership.h"

namespace tarn::cluster {

/// True if all replicas of some name with `count` replicas may lie on targets of which `is_one`
/// (called with an id) is true. Where the set has zones, these targets must be in as many of them
/// as the replicas of a name are. Pure.
[[nodiscard]] bool may_hold_all(const NodeSet& nodes, std::size_t count,
                                const std::function<bool(const std::string&)>& is_one);

/// True if each acknowledged name of a bucket with this count has, in the present set or a past
/// epoch, a replica that shows it. Such a replica has lost nothing, and `is_blind` (called with an
/// id) is false for it: it shows all that it has. The union of the lists of such targets then
/// leaves no name out. Pure.
[[nodiscard]] bool shows_all_names(const Ownership& map, const ReplicaCount& count,
                                   const std::function<bool(const std::string&)>& is_blind);

/// The same of the past epochs alone: false if a name that is still being handed over may have no
/// replica left that shows it. Pure.
[[nodiscard]] bool shows_past_names(const Ownership& map, const ReplicaCount& count,
                                    const std::function<bool(const std::string&)>& is_blind);

}  // namespace tarn::cluster
