#include "common/cluster/state/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/base/fail_point.h"

namespace tarn::cluster {
namespace {

CoordinatorStep step_from(const OwnershipState& state) {
  CoordinatorStep step;
  step.map_version = state.map->version;
  step.settled_before = state.settled;
  return step;
}

bool may_settle(const OwnershipState& state) {
  if (!SAFETY("safety.settle_waits")) return true;
  return std::all_of(state.live.begin(), state.live.end(), [&](const TargetStatus& status) {
    return status.map_version >= state.map->version;
  });
}

bool in_a_past_epoch(const Ownership& map, const std::string& id) {
  return std::any_of(map.past.begin(), map.past.end(),
                     [&](const PastEpoch& set) { return set.nodes.contains(id); });
}

/// Flags that a member is to have. One in maintenance that was to end has ended when it is away and
/// nothing of it is needed: when it is started again, it goes on.
std::uint64_t flags_for(const Ownership& map, const Member& member, bool live,
                        std::chrono::nanoseconds absent, const AbsenceLimits& limits) {
  if (live) return member.flags & ~(kDown | kOut);
  const bool has_ended = (member.flags & kMaintenance) != 0 && !in_a_past_epoch(map, member.id);
  return (member.flags & ~(has_ended ? kStops : 0)) | kDown |
         (absent >= limits.out_after ? kOut : 0);
}

/// Publishes the members that came and went, all in one version.
std::optional<CoordinatorStep> publish_changes(const OwnershipState& state,
                                               const AbsentFor& absent_for,
                                               const AbsenceLimits& limits) {
  CoordinatorStep step = step_from(state);
  std::vector<Member> members = state.map->members;
  for (Member& member : members) {
    const bool live = state.find(member.id) != nullptr;
    const auto absent = live ? std::chrono::nanoseconds(0) : absent_for(member.id);
    const std::uint64_t flags = flags_for(*state.map, member, live, absent, limits);
    if (flags == member.flags) continue;
    member.flags = flags;
    (live ? step.present : step.absent).push_back(member.id);
  }
  if (step.present.empty() && step.absent.empty()) return std::nullopt;
  step.publish = with_members(*state.map, std::move(members));
  return step;
}

/// A target whose drives differ from those that the map knows may have lost stored data.
std::optional<CoordinatorStep> publish_loss(const OwnershipState& state) {
  for (const TargetStatus& status : state.live) {
    const Member* member = state.map->find(status.id);
    if (member == nullptr || status.drive_set == 0 || status.drive_set == member->drive_set)
      continue;
    CoordinatorStep step = step_from(state);
    step.publish = with_loss(*state.map, status.id, status.drive_set);
    step.present.push_back(status.id);
    return step;
  }
  return std::nullopt;
}

/// Targets that have got more drives, or have fewer: slices are spread over as many (slice_plan.h).
/// No name has another replica for that.
std::optional<CoordinatorStep> publish_drives(const OwnershipState& state) {
  CoordinatorStep step = step_from(state);
  std::vector<Member> members = state.map->members;
  for (Member& member : members) {
    const TargetStatus* status = state.find(member.id);
    if (status == nullptr || status->drives == 0 || status->drives == member.drives) continue;
    member.drives = status->drives;
    step.present.push_back(member.id);
  }
  if (step.present.empty()) return std::nullopt;
  step.publish = with_members(*state.map, std::move(members));
  return step;
}

/// Members that have gone for good: away too long, or decommissioned and empty, or removed with
/// their objects. A live member has the settled map in force, so it knows its flags.
std::optional<CoordinatorStep> remove_member(const OwnershipState& state,
                                             const AbsentFor& absent_for,
                                             const AbsenceLimits& limits) {
  for (const Member& member : state.map->members) {
    const bool live = state.find(member.id) != nullptr;
    const bool fenced =
        !live && (member.flags & kOut) != 0 && absent_for(member.id) >= limits.tombstone_keep;
    const bool left = (member.flags & kDecommission) != 0 &&
                      ((member.flags & kGivenUp) != 0 || !in_a_past_epoch(*state.map, member.id));
    if (!fenced && !left) continue;
    CoordinatorStep step = step_from(state);
    step.publish = without_member(*state.map, member.id);
    if (!live) step.absent.push_back(member.id);
    return step;
  }
  return std::nullopt;
}

std::optional<CoordinatorStep> forget_sets(const OwnershipState& state) {
  const auto done = [&](const std::string& id) {
    const TargetStatus* status = state.find(id);
    return status != nullptr && status->moved >= state.map->version;
  };
  auto next = without_done_sets(*state.map, done);
  if (!next) next = with_given_sets(*state.map, done);
  if (!next) return std::nullopt;
  CoordinatorStep step = step_from(state);
  step.publish = std::move(next);
  return step;
}

}  // namespace

std::optional<CoordinatorStep> next_step(const OwnershipState& state, const AbsentFor& absent_for,
                                         const AbsenceLimits& limits) {
  if (auto step = publish_changes(state, absent_for, limits)) return step;
  if (auto step = publish_loss(state)) return step;
  if (auto step = publish_drives(state)) return step;
  if (state.settled < state.map->version) {
    if (!may_settle(state)) return std::nullopt;
    CoordinatorStep step = step_from(state);
    step.settle = state.map->version;
    return step;
  }
  if (auto step = remove_member(state, absent_for, limits)) return step;
  return forget_sets(state);
}

std::vector<std::string> proxies_that_left(const Smap& map, const ProxyVersions& live,
                                           const AbsentFor& absent_for,
                                           const AbsenceLimits& limits) {
  std::vector<std::string> out;
  for (const auto& [id, node] : map.nodes) {
    if (node.role != Role::proxy) continue;
    const auto status = live.find(id);
    const bool down = status == live.end();
    const bool dismissed =
        (node.flags & kDecommission) != 0 && (down || status->second >= map.version);
    const bool lost =
        down && (node.flags & kMaintenance) == 0 && absent_for(id) >= limits.proxy_out_after;
    if (dismissed || lost) out.push_back(id);
  }
  return out;
}

}  // namespace tarn::cluster
