#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/cluster/place/hand_over.h"
#include "common/cluster/place/ownership.h"
#include "tests/simulation/map_changes.h"

namespace tarn::cluster {

inline Member member(const std::string& id, double weight = 1.0, std::uint32_t drives = 1) {
  return {id, placement_digest(id), weight, drives, 0};
}

/// The map in which these targets joined one after the other, without past epochs.
inline Ownership map_of(const std::vector<std::string>& ids) {
  Ownership map;
  for (const std::string& id : ids) map = with_member(map, member(id));
  map.past.clear();
  return map;
}

/// A name that `before` gives to `from` and `after` to `to`.
inline std::string name_that_moves(const Ownership& before, const Ownership& after,
                                   const std::string& from, const std::string& to) {
  for (int i = 0; i < 100'000; ++i) {
    std::string name = "ais/@#/data/" + std::to_string(i);
    const auto digest = placement_digest(name);
    if (before.current.owner(digest) == from && after.current.owner(digest) == to) return name;
  }
  return "";
}

inline std::shared_ptr<const OwnershipState> state_of(const Ownership& map, std::uint64_t settled,
                                                      std::int64_t revision,
                                                      std::vector<TargetStatus> live = {}) {
  auto state = std::make_shared<OwnershipState>();
  state->revision = revision;
  state->map = std::make_shared<Ownership>(map);
  state->settled = settled;
  state->live = std::move(live);
  return state;
}

}  // namespace tarn::cluster
