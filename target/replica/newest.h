#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "target/node/node.h"

namespace tarn::target {

/// The newest version of a name of ours, wherever it lies.
struct Newest {
  std::vector<Located> here;               ///< all records here, newest first (from find_all)
  std::optional<io::ObjectRecord> record;  ///< the newest of all; nothing: there was never one
  /// The target that has it, within `state`, when it has not come here yet; else null.
  const cluster::Node* holder = nullptr;
  std::vector<std::string> drives;  ///< paths of the drives there that it lies on
  std::shared_ptr<const cluster::ClusterState> state;

  [[nodiscard]] bool exists() const {
    return record && record->kind == io::ObjectRecord::Kind::object;
  }
  /// Generation of the newest record; nothing: there was never one.
  [[nodiscard]] std::optional<Generation> generation() const {
    return record ? std::optional(record->generation) : std::nullopt;
  }
};

/// Answer of another target about a name.
struct ReplicaAnswer {
  std::string id;
  std::optional<io::ObjectRecord> record;
  std::vector<std::string> drives;
};
/// Ways in which a target looks before it answers.
enum class Look : std::uint8_t {
  complete,      ///< its answer is what all replicas have
  complete_now,  ///< same, under the name's lock: an error if only its holder could resolve it
  as_it_is
};
/// Asks one target, which answers when nothing of the name is on its way to its drives. It answers
/// at once when it has, as all replicas have, what is `enough`: that version or a newer one.
/// unavailable when it does not answer, or acts on a newer map than `state`.
Task<Result<ReplicaAnswer>> ask_replica(TargetNode& node,
                                        std::shared_ptr<const cluster::ClusterState> state,
                                        ObjectName name, std::string id, Look look,
                                        std::optional<Generation> enough = {});

/// Asks all targets that may have something newer than this one, and looks at itself last
/// (docs/decisions/011); none when nothing moves. We must be a replica of the name. Under the
/// name's lock for writes; resolve_copies() goes before that. unavailable when a target that may
/// hold the name does not know, or would have to wait for the lock since the owner alone resolves.
///
/// A version that not all replicas may have is unavailable, too; with `show` it is an answer like
/// any other, and other targets report what they have as it is.
enum class Pending : std::uint8_t { refuse, show };
Task<Result<Newest>> find_newest(TargetNode& node, const ObjectRequest& wanted,
                                 Pending pending = Pending::refuse);
/// resolve_copies() and find_newest(): not under the name's lock.
Task<Result<Newest>> find_complete(TargetNode& node, const ObjectRequest& wanted);
/// find_newest(), for what needs the record here: object_not_found when there is no object,
/// unavailable while it lies elsewhere.
Task<Result<Newest>> find_present(TargetNode& node, const ObjectRequest& wanted);
/// The newest version with its file open, brought here first when it lies elsewhere
/// (fetch_to_owner.h); null when there is none. Not under the name's lock.
Task<Result<std::shared_ptr<OpenObject>>> open_newest(TargetNode& node,
                                                      const ObjectRequest& wanted);
/// True if it is known, without asking, that no target has anything newer than `object` (null:
/// nothing).
[[nodiscard]] bool is_newest(const cluster::ClusterState& state, const OpenObject* object);

/// Answers ask_replica() of another target.
Task<Status> look_up(TargetNode& node, http::Request& request);  // internal

inline constexpr const char* kLookUpPath = "/v1/internal/look-up";

}  // namespace tarn::target
