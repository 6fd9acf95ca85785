#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cluster/place/ownership.h"

// Changes of maps as the tests make them.
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

}  // namespace tarn::cluster
