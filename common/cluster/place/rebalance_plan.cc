#include "common/cluster/place/rebalance_plan.h"

#include <algorithm>

namespace tarn::cluster {
namespace {

using Ids = std::vector<std::string>;

Ids replicas_in(const NodeSet& set, std::uint64_t digest, std::size_t count) {
  Ids out;
  for (const Replica& replica : set.replicas(digest, count))
    if (replica.drive == 0) out.push_back(set.id(replica.node));
  return out;
}

bool rebalance_plan_has(const Ids& ids, std::string_view id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

Ids minus(const Ids& from, const Ids& other) {
  Ids out;
  for (const std::string& id : from)
    if (!rebalance_plan_has(other, id)) out.push_back(id);
  return out;
}

enum class Leaver : std::uint8_t { alive, down, gone };
Leaver leaver_state(const Ownership& map, const PastEpoch& set, const std::string& id) {
  const Member* member = map.find(id);
  if (member == nullptr || (member->flags & kOut) != 0 || rebalance_plan_has(set.lost, id))
    return Leaver::gone;
  return (member->flags & kDown) != 0 ? Leaver::down : Leaver::alive;
}

/// Sender of the name to the i-th new replica: the i-th replica that leaves; the first that stays
/// when that one is gone, or there were fewer replicas than now; the first that leaves when none
/// stays. Empty: none, as when the i-th replica that leaves is only down.
std::string sender(const Ownership& map, const PastEpoch& set, const Ids& leavers,
                   const Ids& stayers, std::size_t i) {
  if (i < leavers.size()) {
    switch (leaver_state(map, set, leavers[i])) {
      case Leaver::alive: return leavers[i];
      case Leaver::down: return "";
      case Leaver::gone: break;
    }
  }
  if (!stayers.empty()) return stayers.front();
  for (const std::string& id : leavers)
    if (leaver_state(map, set, id) == Leaver::alive) return id;
  return "";
}

/// Members of the replicas `present` to which `self` sends the name because of one past epoch.
Ids receivers(const Ownership& map, const PastEpoch& set, const std::string& self,
              std::uint64_t digest, const ReplicaCount& count, const Ids& present) {
  const Ids before = replicas_in(set.nodes, digest, count.at(set.last));
  const Ids sure = sure_replicas(set, digest, count);
  // Each target that still has it, got it meanwhile, or has it back with a drive, sends it to all.
  const bool is_lost = rebalance_plan_has(before, self) && rebalance_plan_has(set.lost, self);
  if (count.many() && (sure.empty() || is_lost)) return minus(present, {self});
  if (!rebalance_plan_has(sure, self)) return {};
  Ids out;
  const Ids stayers = minus(sure, minus(sure, present));
  const Ids leavers = minus(before, stayers);
  const Ids fresh = minus(present, sure);
  for (std::size_t i = 0; i < fresh.size(); ++i)
    if (sender(map, set, leavers, stayers, i) == self) out.push_back(fresh[i]);
  return out;
}

}  // namespace

NamePlan plan_name(const Ownership& map, std::string_view self, std::uint64_t name_digest,
                   const ReplicaCount& count) {
  NamePlan plan;
  if (!count.many() && map.current.owner(name_digest) == self) {
    plan.keep = true;  // nearly all names, and no target lacks them
    return plan;
  }
  const Ids present = replicas_in(map.current, name_digest, count.at(map.version));
  plan.keep = rebalance_plan_has(present, self);
  for (const PastEpoch& set : map.past)
    for (std::string& id : receivers(map, set, std::string(self), name_digest, count, present))
      if (!rebalance_plan_has(plan.send, id)) plan.send.push_back(std::move(id));
  if (plan.keep) return plan;
  // A stray, or one whose place no other target takes: the owner judges it by its generation.
  if (plan.send.empty() && !present.empty()) plan.send.push_back(present.front());
  plan.confirm = minus(present, plan.send);
  return plan;
}

}  // namespace tarn::cluster
