#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/cluster/place/ownership.h"

namespace tarn::cluster {

// Plan of the targets for the slices of an object (docs/decisions/019). Pure functions.

/// The targets between which slices are spread: members that stay, those that are down included,
/// since nothing is moved for that. Without targets that are out, in maintenance, or leave.
[[nodiscard]] NodeSet standing_members(const Ownership& map);

/// Place where a slice belongs; `id` empty: none, there are not enough drives that take it.
struct SlicePlace {
  std::string id;
  /// Its rank among the slices of the object at this target, from 0: each shall lie on a drive of
  /// its own.
  std::uint32_t rank = 0;

  bool operator==(const SlicePlace&) const = default;
};

/// Known facts about one object's slices.
struct SliceNeeds {
  std::uint64_t name_digest = 0;
  std::size_t slices = 0;  ///< k + m
  /// True if the owner has the full copy beside them: slices lie on other targets, if there are
  /// enough.
  bool after_owner = false;
  /// For each slice the target that has it, empty for none; no entries at all for a new object.
  std::span<const std::string> holders;
  /// Bit i: slice i is there, or will be again by itself. All other slices are to be made anew.
  std::uint32_t good = 0;
  /// True if a target can take a slice now: it is up and has room.
  std::function<bool(const std::string&)> takes;
};

/// A place for each slice. Holders are a set: a slice whose target is one of the wanted ones stays,
/// whatever its number. Only as many other slices move as there are wanted places without one.
/// Where a wanted place cannot be taken now, a good slice stays where it is. Another one goes to
/// the zone with the fewest slices of the object, and there to the target with the fewest. Only
/// targets that take it count.
[[nodiscard]] std::vector<SlicePlace> plan_slices(const NodeSet& standing, const SliceNeeds& needs);

/// True if a slice has no place, or more slices are together at one target or in one zone than if
/// all targets took them. The full copy counts in its zone. The object may survive fewer losses
/// then. Another target than the wanted one is as good, if it has at most as many of them as that
/// one would.
[[nodiscard]] bool stands_worse(const NodeSet& standing, const SliceNeeds& needs,
                                std::span<const SlicePlace> places);

/// Room and safety of a cluster for objects of k + m slices while all of its targets take some.
struct SliceReach {
  std::size_t drives = 0;  ///< of all targets: each slice of an object lies on one of its own
  std::size_t nodes = 0;   ///< number of targets whose loss any complete object survives
  /// The same of zones; none if placement takes no heed of them.
  std::optional<std::size_t> zones = {};
};
/// `after_owner` as SliceNeeds has it.
[[nodiscard]] SliceReach slice_reach(const NodeSet& standing, std::size_t k, std::size_t m,
                                     bool after_owner);

}  // namespace tarn::cluster
