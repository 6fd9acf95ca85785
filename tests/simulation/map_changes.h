#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cluster/place/ownership.h"

// Changes of maps as the tests make them, and what these move.
namespace tarn::cluster {

/// Sets and clears flags of one member. Nothing when that changes nothing, or there is no such one.
inline std::optional<Ownership> with_flags(const Ownership& map, std::string_view id,
                                           std::uint64_t set, std::uint64_t clear) {
  std::vector<Member> members = map.members;
  for (Member& member : members) {
    if (member.id != id) continue;
    const std::uint64_t flags = (member.flags & ~clear) | set;
    if (flags == member.flags) return std::nullopt;
    member.flags = flags;
    return with_members(map, std::move(members));
  }
  return std::nullopt;
}

/// Adds a target, or gives it another weight or number of drives; its flags are as given.
inline Ownership with_member(const Ownership& map, Member member) {
  std::vector<Member> members = map.members;
  const auto at = std::lower_bound(members.begin(), members.end(), member,
                                   [](const Member& a, const Member& b) { return a.id < b.id; });
  if (at != members.end() && at->id == member.id) {
    *at = std::move(member);
  } else {
    members.insert(at, std::move(member));
  }
  return with_members(map, std::move(members));
}

/// Names that a change from one set to another moves, with one copy each.
struct MoveCount {
  std::uint64_t names = 0;
  std::uint64_t moved = 0;
  std::uint64_t needless = 0;  ///< of these, between two targets that are in both sets
};

/// Counts one name.
inline void count_move(MoveCount& count, const NodeSet& before, const NodeSet& after,
                       std::uint64_t name_digest) {
  ++count.names;
  const std::string& from = before.owner(name_digest);
  const std::string& to = after.owner(name_digest);
  if (from == to) return;
  ++count.moved;
  if (after.contains(from) && before.contains(to)) ++count.needless;
}

/// The share of all names that a change must move at least: what the weights of those who gain
/// demand.
inline double least_share(const NodeSet& before, const NodeSet& after) {
  const auto total = [](const NodeSet& set) {
    double sum = 0;
    for (std::size_t i = 0; i < set.size(); ++i) sum += set.weight(i);
    return sum;
  };
  const auto share_before = [&, all = total(before)](const std::string& id) {
    for (std::size_t i = 0; i < before.size(); ++i)
      if (before.id(i) == id) return before.weight(i) / all;
    return 0.0;
  };
  double out = 0;
  const double all = total(after);
  for (std::size_t i = 0; i < after.size(); ++i)
    out += std::max(0.0, after.weight(i) / all - share_before(after.id(i)));
  return out;
}

}  // namespace tarn::cluster
