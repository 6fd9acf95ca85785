#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/cluster/place/node_set.h"
#include "common/cluster/place/replica_count.h"

namespace tarn::cluster {

// Decides which targets may own, hold and read a name while the cluster changes
// (docs/decisions/011). Pure values and functions: no clock, no I/O, no locks.

/// Flags that keep a target from owning names. The first two are AIStore's; several may be set.
/// Those from kStops on keep it from nothing: they record what an operator wants of a node that is
/// in maintenance or leaves. So each later coordinator goes on with it.
enum : std::uint64_t {
  kMaintenance = 4,      ///< in maintenance, by an operator: alive, its names move away
  kDecommission = 8,     ///< leaves for good: alive, its names move away
  kDown = 1U << 16U,     ///< its lease ended: other targets take its writes, no object moves
  kOut = 1U << 17U,      ///< down for `out_after`, or put out: its objects are rebuilt elsewhere
  kStops = 1U << 18U,    ///< ends its process when nothing of it is needed any longer
  kErases = 1U << 19U,   ///< erases what users have stored there when it is out of the map
  kGivenUp = 1U << 20U,  ///< its names do not move: objects that only it holds are lost
};

/// A target in the map.
struct Member {
  std::string id;
  std::uint64_t digest = 0;  ///< placement_digest(id)
  double weight = 1.0;
  std::uint32_t drives = 1;  ///< number of those over which slices are spread there (slice_plan.h)
  std::uint64_t flags = 0;
  /// The drive set that this map knows (TargetStatus::drive_set).
  std::uint64_t drive_set = 0;
  /// Name of the failure domain in which the target lies, such as a zone of a cloud or a rack;
  /// empty: none is known.
  std::string zone = {};

  [[nodiscard]] bool owns() const {
    return (flags & (kMaintenance | kDecommission | kDown | kOut)) == 0;
  }
};

/// Targets that owned names in map versions up to `last` and may still hold some.
struct PastEpoch {
  std::uint64_t last = 0;
  NodeSet nodes;
  /// Members of `nodes` that may have lost stored data: they are no longer members, or a drive of
  /// theirs has gone. They stay in the set, so that it names the replicas that names had. Sorted.
  std::vector<std::string> lost;
  /// If not empty: of names with copies on nodes, the set is kept only for those whose replicas in
  /// it are all among these. Copies of all other names are on the replicas of newer epochs. Sorted.
  std::vector<std::string> only_for;
  /// Ownership::copies_since as it was then: equal sets stand for other replicas when it differs.
  std::uint64_t copies_since = 0;

  bool operator==(const PastEpoch& other) const = default;
};

/// The part of the cluster map that decides the owner of a name. Immutable once published.
///
/// Invariants: `current` is made of the members that own; `past` is sorted, greatest `last` first,
/// all below `version`; no two sets are equal. A past epoch stays until each member of it reports
/// that it holds only its own names, and has sent all other names. So each acknowledged version
/// lies at each replica of `current` or of some past epoch, unless that replica has lost it. A
/// version that a past epoch took has a generation whose map version is at most its `last`.
struct Ownership {
  std::uint64_t version = 0;
  std::vector<Member> members;  ///< by id
  /// Targets with one drive each: the owner of a name does not depend on their number of drives.
  NodeSet current;
  std::vector<PastEpoch> past;
  /// The version with which the number of copies on nodes changed last, of any bucket.
  std::uint64_t copies_since = 0;

  [[nodiscard]] const Member* find(std::string_view id) const;
};

/// Error that states the allowed form, unless `zone` can be the name of a zone: 1 to 63 letters,
/// digits, '.', '_' and '-'.
[[nodiscard]] Status check_zone(std::string_view zone);
/// True if placement spreads copies over zones: each target that is to stay has one, whether it is
/// up or not. So a cluster whose targets get zones one by one moves its data once.
[[nodiscard]] bool zones_in_use(const std::vector<Member>& members);
/// Zone of each member, by id, where placement spreads copies over at least two zones; else empty.
[[nodiscard]] std::map<std::string, std::string> zones_by_id(const std::vector<Member>& members);
/// Ownership::current of a map with these members.
[[nodiscard]] NodeSet owning_members(const std::vector<Member>& members);

/// The map after `map`, with these members. Its version is one higher; the set that owned until now
/// becomes a past epoch when it is another.
[[nodiscard]] Ownership with_members(const Ownership& map, std::vector<Member> members);
/// The map without `id`, which past epochs have as lost: objects that only it held are lost. It is
/// fenced by that: a target that is not in the map may join only when it is empty. None if it is
/// not a member.
[[nodiscard]] std::optional<Ownership> without_member(const Ownership& map, std::string_view id);
/// The map in which member `id` owns the same names, and is not believed to have its stored data of
/// until now; `drive_set` is the number that it reports.
[[nodiscard]] Ownership with_loss(const Ownership& map, std::string_view id,
                                  std::uint64_t drive_set);
/// The map from which on a bucket has another replica count: the set that owned until now becomes a
/// past epoch, with the replicas that names had, though no member came or went.
[[nodiscard]] Ownership with_other_copies(const Ownership& map);
/// Adds to `before` that a bucket had `count` replicas until the map `next`, which
/// with_other_copies() made. Forgets entries of which no past epoch is left.
void note_replica_count(std::vector<PastReplicaCount>& before, const Ownership& next,
                        std::uint32_t count);
/// The map without the past epochs of which `done` (called with an id) is true for all their
/// targets that are still members. Where `lost` is not empty, it must be true for all members of
/// the map. None if there is no such epoch.
template <class Done>
[[nodiscard]] std::optional<Ownership> without_done_sets(const Ownership& map, const Done& done);

/// The map in which past epochs are kept only for members that are out, and for lost targets. None
/// if any other member is not `done`, or if that changes no past epoch.
[[nodiscard]] std::optional<Ownership> with_given_sets(
    const Ownership& map, const std::function<bool(const std::string&)>& done);

/// The target that takes the writes of a name, once it may (hand_over.h). Empty: none.
[[nodiscard]] const std::string& writer_of(const Ownership& map, std::uint64_t name_digest);

/// Targets that may hold versions that the ones asked before them do not have.
struct ReadGroup {
  /// A record whose generation has a higher map version than this is newer than anything here.
  std::uint64_t last = 0;
  /// In HRW order.
  std::vector<std::string> replicas;
  /// True if each of them may have lost stored data. Else all that was acknowledged lies on each,
  /// so the answer of one is enough.
  bool all_needed = false;

  bool operator==(const ReadGroup&) const = default;
};
/// Targets that a replica must ask before it is authoritative for an answer, newest set first:
/// those of past epochs in which `self` has no replica of the name, or has lost its copy. `found`:
/// the map version of the best generation seen so far, 0 for none; groups that cannot have anything
/// newer are left out. Empty: the version at `self` is the answer, a miss as well.
[[nodiscard]] std::vector<ReadGroup> readers_of(const Ownership& map, std::string_view self,
                                                std::uint64_t name_digest,
                                                const ReplicaCount& count, std::uint64_t found);

/// The replicas of a name in a past epoch that have not lost their copies. In HRW order.
[[nodiscard]] std::vector<std::string> sure_replicas(const PastEpoch& set,
                                                     std::uint64_t name_digest,
                                                     const ReplicaCount& count);

/// All targets that may hold any name: they must answer before a list is complete. Sorted.
[[nodiscard]] std::vector<std::string> may_hold_any(const Ownership& map);

/// True if a tombstone at replica `self` may be forgotten: no target but the present replicas may
/// hold the name, and all these but `self` have this tombstone or something newer
/// (`others_confirmed`). A copy still on its way has an older map than the one in which that is so,
/// and is refused (accepts_copy).
[[nodiscard]] bool may_drop_tombstone(const Ownership& map, std::string_view self,
                                      std::uint64_t name_digest, const ReplicaCount& count,
                                      bool others_confirmed);
/// Sender of a moved copy, and the map version by which it sends.
struct CopySender {
  std::string id;
  std::uint64_t map_version = 0;
};
/// True if `self`, which knows `map`, takes a copy from `sender`: not when the sender acted on an
/// older map, or is fenced. A receiver with an older map fetches the newer one first.
[[nodiscard]] bool accepts_copy(const Ownership& map, std::string_view self,
                                std::uint64_t name_digest, const ReplicaCount& count,
                                const CopySender& sender);

template <class Done>
std::optional<Ownership> without_done_sets(const Ownership& map, const Done& done) {
  Ownership next = map;
  std::erase_if(next.past, [&](const PastEpoch& set) {
    for (std::size_t i = 0; i < set.nodes.size(); ++i)
      if (map.find(set.nodes.id(i)) != nullptr && !done(set.nodes.id(i))) return false;
    return set.lost.empty() || std::all_of(map.members.begin(), map.members.end(),
                                           [&](const Member& each) { return done(each.id); });
  });
  if (next.past.size() == map.past.size()) return std::nullopt;
  ++next.version;
  return next;
}

}  // namespace tarn::cluster
