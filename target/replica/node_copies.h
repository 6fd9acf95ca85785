#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "target/node/node.h"

namespace tarn::target {

// Copies of one object on several nodes (docs/decisions/014). Each replica has the object once, on
// the drive where it would lie if it were the only copy.

/// Number of replicas of this bucket's objects, as known here (usually 1). Read the map first and
/// call this after, so that the bucket record is at least as new.
[[nodiscard]] cluster::ReplicaCount replica_count_of(const TargetNode& node, BucketId bucket);
/// True if this node is a replica of the name by `state`.
[[nodiscard]] bool is_replica(const TargetNode& node, const cluster::ClusterState& state,
                              const std::string& uname, const cluster::ReplicaCount& count);
/// Ids of the replicas of a name, the owner's first. Fewer than its replica count when there are
/// not so many targets.
[[nodiscard]] std::vector<std::string> replicas_of(const cluster::Ownership& map,
                                                   const std::string& uname,
                                                   const cluster::ReplicaCount& count);

/// Names of a bucket that this node shows and counts, so that each appears once: those that it
/// owns. Empty: all that it has, since no other target has them.
[[nodiscard]] std::function<bool(std::string_view)> names_to_show(
    const TargetNode& node, std::shared_ptr<const cluster::ClusterState> state, BucketId bucket);

/// Returns the writer of a record that not all replicas may have yet; empty: all have it. Kept
/// among the custom metadata of the record, under a key that no client can send.
[[nodiscard]] std::string_view pending_by(const io::ObjectRecord& record);
void mark_pending(io::ObjectRecord& record, std::string_view writer);
void mark_complete(io::ObjectRecord& record);

/// A version on its way to the other replicas: of a file that is not published yet, of an object,
/// or, when both are null, of a tombstone.
struct VersionInFlight {
  io::ObjectAttribute attribute;
  WorkFile* file = nullptr;
  const std::vector<std::uint32_t>* checksums = nullptr;  ///< of the file
  OpenObject* object = nullptr;
  bool has_room = false;  ///< replicas_have_room() was asked
};
/// Asks the other replicas of the name if they have room for `record`, and keep up: errors as
/// check_room(). Before slices are sealed, which no record may come to name.
Task<Status> replicas_have_room(TargetNode& node, ObjectName name, const io::ObjectRecord& record);
/// Sends the version to all replicas of the name but this node, which owns it; returns when each
/// has it durably. When the map changes meanwhile, the replicas are those of the newest one. True
/// if there are as many as the bucket wants. Under the name's lock, before this node commits its
/// own. `write`: under which that is done. unavailable, with an unknown outcome, when a replica
/// does not answer for some time, or the name gets another owner. Where rule F holds, also when it
/// has had one since the write began. unavailable, too, when there are too few replicas; strict
/// durability wants all.
Task<Result<bool>> replicate(TargetNode& node, const ObjectName& name,
                             const OwnedNames::Write& write, cluster::Durability durability,
                             const VersionInFlight& outbound);
/// Sends a version to one target, pending by this one. Ok: it has that, or a newer one, durably.
Task<Status> give_pending(TargetNode& node, VersionInFlight outbound, std::string id);
/// True if a pending record of the bucket goes forward by the name's owner alone, under a new
/// generation (docs/decisions/019, rule F).
[[nodiscard]] bool forward_by_owner(const TargetNode& node, BucketId bucket);
/// Reports to the other replicas, if there are any, that all have it. Best effort: a replica that
/// does not hear it asks.
Task<void> confirm_replicas(TargetNode& node, ObjectName name, Generation generation);

/// unavailable while this node may have lost what it held, and the map does not show that yet: then
/// it has no answer about a name of which other targets have copies.
Status is_authoritative_for_copies(const TargetNode& node);

/// Returns when what this node holds of the name is what all replicas have. A record of which that
/// is not known is asked for at its writer, or sent to all replicas. unavailable when that cannot
/// be, or when it is changed again and again.
Task<Status> resolve_copies(TargetNode& node, ObjectName name);
/// Records of the name, the newest first, that this node held at some moment of the call, of which
/// all replicas had the newest. For lists, which need no bytes: a name that is written again and
/// again holds up none. Waits up to 2 s while its writer or the map changes; then unavailable.
Task<Result<std::vector<Located>>> complete_records(TargetNode& node, ObjectName name);

/// All replicas have the version of this generation: takes the mark from our record, if it is that.
Task<Status> all_have(TargetNode& node, const ObjectName& name, Generation generation);

/// Opens what this node holds of the name; null when that is nothing, or a tombstone. A version
/// that comes meanwhile, also a tombstone, is not believed before all replicas have it. unavailable
/// as resolve_copies(), while a drive is away of which other replicas know more, and when it is
/// changed again and again; else as ObjectStore::open_object().
Task<Result<std::shared_ptr<OpenObject>>> open_complete(TargetNode& node, const ObjectName& name);

Task<Status> hear_complete(TargetNode& node, http::Request& request);  // internal

inline constexpr const char* kCompletePath = "/v1/internal/copies/settled";

}  // namespace tarn::target
