#include "common/cluster/place/ownership.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/fail_point.h"

namespace tarn::cluster {
namespace {

bool ownership_has(const std::vector<std::string>& ids, std::string_view id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// Notes in the past epochs of `id` that it may have lost what it had.
void lose(Ownership& map, std::string_view id) {
  for (PastEpoch& set : map.past) {
    if (!set.nodes.contains(id)) continue;
    const auto at = std::lower_bound(set.lost.begin(), set.lost.end(), id);
    if (at == set.lost.end() || *at != id) set.lost.emplace(at, id);
  }
}

/// Merges equal past epochs: the newest one stays, since it implies the older ones.
void forget_repeated(Ownership& map) {
  std::vector<PastEpoch> kept;
  for (PastEpoch& set : map.past) {
    const bool repeated =
        set.nodes.empty() ||
        (set.nodes == map.current && set.lost.empty() && set.copies_since == map.copies_since) ||
        std::any_of(kept.begin(), kept.end(), [&](const PastEpoch& newer) {
          return newer.nodes == set.nodes && newer.lost == set.lost &&
                 newer.only_for == set.only_for && newer.copies_since == set.copies_since;
        });
    if (!repeated) kept.push_back(std::move(set));
  }
  map.past = std::move(kept);
}

/// Makes a past epoch of the present one.
PastEpoch present_set(const Ownership& map) {
  return {map.version, map.current, {}, {}, map.copies_since};
}

std::vector<std::string> ids_of(const NodeSet& set, const std::vector<Replica>& replicas) {
  std::vector<std::string> out;
  for (const Replica& replica : replicas)
    if (replica.drive == 0) out.push_back(set.id(replica.node));
  return out;
}

}  // namespace

const Member* Ownership::find(std::string_view id) const {
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.id == id; });
  return found == members.end() ? nullptr : &*found;
}

Status check_zone(std::string_view zone) {
  constexpr std::size_t kLengthMax = 63;
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (!zone.empty() && zone.size() <= kLengthMax &&
      std::all_of(zone.begin(), zone.end(), is_allowed))
    return {};
  return fail(
      Errc::invalid_argument,
      "'{}' is not the name of a zone: 1 to {} letters, digits, '.', '_' and '-' are allowed", zone,
      kLengthMax);
}

bool zones_in_use(const std::vector<Member>& members) {
  const auto lacks_one = [](const Member& member) {
    return member.zone.empty() && (member.flags & kDecommission) == 0;
  };
  const auto has_one = [](const Member& member) { return !member.zone.empty(); };
  return std::any_of(members.begin(), members.end(), has_one) &&
         std::none_of(members.begin(), members.end(), lacks_one);
}

std::map<std::string, std::string> zones_by_id(const std::vector<Member>& members) {
  std::map<std::string, std::string> out;
  if (!zones_in_use(members)) return out;
  std::set<std::string> names;
  for (const Member& member : members) {
    if (member.zone.empty()) continue;
    out[member.id] = member.zone;
    names.insert(member.zone);
  }
  if (names.size() < 2) out.clear();
  return out;
}

NodeSet owning_members(const std::vector<Member>& members) {
  NodeSet out;
  const bool has_zones = zones_in_use(members);
  for (const Member& member : members)
    if (member.owns())
      out.add(member.id, member.digest, member.weight, 1, has_zones ? member.zone : "");
  return out;
}

Ownership with_members(const Ownership& map, std::vector<Member> members) {
  Ownership next;
  next.version = map.version + 1;
  next.members = std::move(members);
  next.current = owning_members(next.members);
  next.past = map.past;
  next.copies_since = map.copies_since;
  next.past.insert(next.past.begin(), present_set(map));
  forget_repeated(next);
  return next;
}

std::optional<Ownership> without_member(const Ownership& map, std::string_view id) {
  if (map.find(id) == nullptr) return std::nullopt;
  std::vector<Member> members = map.members;
  std::erase_if(members, [&](const Member& member) { return member.id == id; });
  Ownership next = with_members(map, std::move(members));
  lose(next, id);
  forget_repeated(next);
  return next;
}

Ownership with_loss(const Ownership& map, std::string_view id, std::uint64_t drive_set) {
  Ownership next = map;
  ++next.version;
  for (Member& member : next.members)
    if (member.id == id) member.drive_set = drive_set;
  next.past.insert(next.past.begin(), present_set(map));
  lose(next, id);
  forget_repeated(next);
  return next;
}

Ownership with_other_copies(const Ownership& map) {
  Ownership next = map;
  next.copies_since = ++next.version;
  next.past.insert(next.past.begin(), present_set(map));
  forget_repeated(next);
  return next;
}

void note_replica_count(std::vector<PastReplicaCount>& before, const Ownership& next,
                        std::uint32_t count) {
  const std::uint64_t last = next.version - 1;
  const std::uint64_t oldest = next.past.empty() ? last : next.past.back().last;
  std::erase_if(before, [&](const PastReplicaCount& each) { return each.last < oldest; });
  before.push_back({last, count});
}

std::optional<Ownership> with_given_sets(const Ownership& map,
                                         const std::function<bool(const std::string&)>& done) {
  const auto is_gone = [&](const Member& member) {
    return (member.flags & kOut) != 0 && !done(member.id);
  };
  // Any target may have got a copy of a name whose replicas have all lost it.
  const bool all = std::all_of(map.members.begin(), map.members.end(), [&](const Member& member) {
    return is_gone(member) || done(member.id);
  });
  if (!all) return std::nullopt;
  Ownership next = map;
  bool changed = false;
  for (PastEpoch& set : next.past) {
    if (!set.only_for.empty()) continue;
    set.only_for = set.lost;
    for (const Member& member : map.members)
      if (is_gone(member) && set.nodes.contains(member.id) && !ownership_has(set.lost, member.id))
        set.only_for.push_back(member.id);
    std::sort(set.only_for.begin(), set.only_for.end());
    changed = changed || !set.only_for.empty();
  }
  if (!changed) return std::nullopt;
  ++next.version;
  return next;
}

const std::string& writer_of(const Ownership& map, std::uint64_t name_digest) {
  return map.current.owner(name_digest);
}

std::vector<std::string> sure_replicas(const PastEpoch& set, std::uint64_t name_digest,
                                       const ReplicaCount& count) {
  auto out = ids_of(set.nodes, set.nodes.replicas(name_digest, count.at(set.last)));
  std::erase_if(out, [&](const std::string& id) { return ownership_has(set.lost, id); });
  return out;
}

namespace {

/// True if newer past epochs have the name, whatever the members of this one do.
bool is_given(const PastEpoch& set, std::uint64_t name_digest, const ReplicaCount& count) {
  if (!count.many() || set.only_for.empty()) return false;
  const auto replicas = ids_of(set.nodes, set.nodes.replicas(name_digest, count.at(set.last)));
  return std::any_of(replicas.begin(), replicas.end(),
                     [&](const std::string& id) { return !ownership_has(set.only_for, id); });
}

/// Targets to ask about one past epoch; no replicas when `self` is enough, or none is left.
ReadGroup group_of(const Ownership& map, const PastEpoch& set, std::string_view self,
                   std::uint64_t name_digest, const ReplicaCount& count) {
  ReadGroup out{set.last, sure_replicas(set, name_digest, count), false};
  const bool is_sure = !out.replicas.empty();
  out.all_needed = !is_sure;
  if (is_sure && ownership_has(out.replicas, self)) out.replicas.clear();
  if (is_sure) return out;
  // Of one copy, its replica alone may have some still. Of several, any member may: it may have got
  // it meanwhile.
  if (count.many())
    for (const Member& member : map.members) out.replicas.push_back(member.id);
  else
    for (const std::string& id :
         ids_of(set.nodes, set.nodes.replicas(name_digest, count.at(set.last))))
      if (map.find(id) != nullptr) out.replicas.push_back(id);
  std::erase(out.replicas, self);
  return out;
}

}  // namespace

std::vector<ReadGroup> readers_of(const Ownership& map, std::string_view self,
                                  std::uint64_t name_digest, const ReplicaCount& count,
                                  std::uint64_t found) {
  std::vector<ReadGroup> out;
  for (const PastEpoch& set : map.past) {
    if (found > set.last) break;  // sets are sorted: all further ones are older still
    if (is_given(set, name_digest, count)) continue;
    ReadGroup group = group_of(map, set, self, name_digest, count);
    const bool asked = std::any_of(out.begin(), out.end(), [&](const ReadGroup& newer) {
      return newer.replicas == group.replicas && newer.all_needed == group.all_needed;
    });
    if (!group.replicas.empty() && !asked) out.push_back(std::move(group));
  }
  return out;
}

std::vector<std::string> may_hold_any(const Ownership& map) {
  std::vector<std::string> out;
  const auto take = [&](const NodeSet& set) {
    for (std::size_t i = 0; i < set.size(); ++i)
      if (map.find(set.id(i)) != nullptr) out.push_back(set.id(i));
  };
  take(map.current);
  for (const PastEpoch& set : map.past) take(set.nodes);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool may_drop_tombstone(const Ownership& map, std::string_view self, std::uint64_t name_digest,
                        const ReplicaCount& count, bool others_confirmed) {
  if (!SAFETY("safety.keep_tombstones")) return true;
  const auto present =
      ids_of(map.current, map.current.replicas(name_digest, count.at(map.version)));
  if (!ownership_has(present, self)) return false;
  if (!others_confirmed) return false;
  return std::all_of(map.past.begin(), map.past.end(), [&](const PastEpoch& set) {
    const auto replicas = ids_of(set.nodes, set.nodes.replicas(name_digest, count.at(set.last)));
    return std::all_of(replicas.begin(), replicas.end(), [&](const std::string& replica) {
      return ownership_has(present, replica) || map.find(replica) == nullptr;
    });
  });
}

bool accepts_copy(const Ownership& map, std::string_view self, std::uint64_t name_digest,
                  const ReplicaCount& count, const CopySender& sender) {
  if (SAFETY("safety.refuse_old_copies") && sender.map_version < map.version) return false;
  if (SAFETY("safety.refuse_fenced") && map.find(sender.id) == nullptr) return false;
  return map.current.is_replica(self, name_digest, count.at(map.version));
}

}  // namespace tarn::cluster
