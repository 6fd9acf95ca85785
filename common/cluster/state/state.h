#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket.h"
#include "common/api/bucket_props.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/base/ip_network.h"
#include "common/cluster/place/ownership.h"
#include "common/cluster/state/cluster_config.h"

namespace tarn::cluster {

struct OwnershipState;  // hand_over.h

enum class Role : std::uint8_t { proxy, target };

/// Another address of a node, for the clients of one network.
struct ClientAddress {
  IpNetwork network;
  std::string url;  ///< as public_url

  bool operator==(const ClientAddress&) const = default;
};

/// A member of the cluster map, up or not. AIStore's "Snode".
struct Node {
  std::string id;
  Role role = Role::target;
  std::string public_url;                       ///< "http://10.0.0.6:8081": the target of redirects
  std::vector<ClientAddress> client_addresses;  ///< in place of public_url (client_addresses.h)
  std::string relay_url;                        ///< proxies only
  std::string internal_url;                     ///< node to node
  std::uint64_t flags = 0;                      ///< as a Member has them (ownership.h)
  double weight = 1.0;
  std::uint32_t drives = 1;     ///< number of those over which copies of one object may be spread
  std::uint64_t digest = 0;     ///< placement_digest(id)
  std::uint64_t drive_set = 0;  ///< as a Member has it
  std::string zone = {};        ///< as a Member has it; of targets

  /// True if placement may choose it.
  [[nodiscard]] bool placeable() const {
    return role == Role::target && (flags & (kMaintenance | kDecommission | kDown | kOut)) == 0;
  }
};

/// Orders of operators about the walks that move names to their targets.
struct RebalanceOrder {
  bool held = false;  ///< none shall run, until one is asked for, or a target joins
  /// The map version by which one was asked for last: targets look through everything by it, also
  /// when rebalance.enabled is false. 0: not since a target joined.
  std::uint64_t asked = 0;

  bool operator==(const RebalanceOrder&) const = default;
};

/// The cluster map.
struct Smap {
  std::uint64_t version = 0;
  std::string uuid;           ///< of the cluster
  std::string creation_time;  ///< "2026-08-21 10:11:12"
  std::map<std::string, Node> nodes;
  std::string primary;             ///< id of the proxy that AIStore clients shall see as primary
  std::vector<PastEpoch> past;     ///< as Ownership has it
  std::uint64_t copies_since = 0;  ///< as Ownership has it
  RebalanceOrder rebalance;

  [[nodiscard]] const Node* find(const std::string& id) const;
  /// Targets that placement may choose from, in the order of their ids.
  [[nodiscard]] std::vector<const Node*> placeable_targets() const;
};
/// The part of `map` that decides the owner of a name.
[[nodiscard]] Ownership ownership_of(const Smap& map);
/// Copies from `next`, made from ownership_of(map), into `map`: version, past epochs, flags,
/// weights and zones of targets. Targets that are no members of it go.
void take_ownership(Smap& map, const Ownership& next);
/// Format of the meta store (keys::kSchema) that holds `map`.
[[nodiscard]] std::string_view schema_of(const Smap& map);
/// The JSON that the meta store keeps; and AIStore's of section 2.2.
void to_json(nlohmann::json& out, const Smap& map);
void from_json(const nlohmann::json& in, Smap& map);
[[nodiscard]] nlohmann::json aistore_json(const Smap& map);
[[nodiscard]] nlohmann::json aistore_json(const Node& node);

using api::BucketProps;
using api::Durability;

struct BucketRecord {
  BucketId id{};
  api::Bucket name;
  BucketProps props;
  std::int64_t created_ns = 0;
  /// Of a bucket that was renamed (docs/decisions/009): the name it was made with, by which its
  /// objects are placed for ever, so that a rename moves nothing.
  std::optional<api::Bucket> first_name;
  /// Of a bucket that was renamed: its name before this one, so that a rename may be asked for
  /// again by a client that did not get the answer.
  std::optional<api::Bucket> former_name;
  /// Numbers of nodes on which its objects had copies before `props`, the smallest `last` first.
  /// One of more than 1 stays for ever.
  std::vector<PastReplicaCount> past_replica_counts = {};
  /// True if it is being destroyed: a node that knows that no longer answers for its objects. So no
  /// client reads them after a destroy was acknowledged (destroy_bucket()).
  bool ending = false;
  /// True if an empty one with the same name and properties follows one that is ending.
  bool comes_again = false;

  /// Number of replicas of its objects, by map version.
  [[nodiscard]] ReplicaCount replica_count() const;
  /// The version of the map since which there are so many; 0: since it was made.
  [[nodiscard]] std::uint64_t replica_count_since() const {
    return past_replica_counts.empty() ? 0 : past_replica_counts.back().last + 1;
  }
  /// The name by which placement finds this bucket's objects.
  [[nodiscard]] const api::Bucket& placed_as() const { return first_name ? *first_name : name; }
  /// The name that placement hashes for one of its objects.
  [[nodiscard]] std::string placement_name(std::string_view object) const {
    return placed_as().uname(object);
  }
};
void to_json(nlohmann::json& out, const BucketRecord& bucket);
void from_json(const nlohmann::json& in, BucketRecord& bucket);
/// AIStore's whole Bprops tree (section 2.5) with this bucket's values.
[[nodiscard]] nlohmann::json aistore_props(const BucketRecord& bucket);
/// Bucket metadata.
struct Bmd {
  std::uint64_t version = 0;
  std::map<api::Bucket, BucketRecord> buckets;
  std::set<BucketId> dead;  ///< ids of destroyed buckets: their files are never adopted

  [[nodiscard]] const BucketRecord* find(const api::Bucket& name) const;
  [[nodiscard]] const BucketRecord* find(BucketId id) const;
};
/// The JSON of `what=bmd`. Its "uuid" is left empty: the caller puts the cluster's there.
[[nodiscard]] nlohmann::json aistore_json(const Bmd& bmd);

/// Snapshot of the cluster at one revision of the meta store, as every node knows it. Immutable;
/// taken once at the start of a request and used to its end.
struct ClusterState {
  /// Of the meta store, counted on from the stores that the cluster had before: it only grows.
  std::int64_t revision = 0;
  std::int64_t revision_base = 0;  ///< of it: revisions of earlier stores (decision 010)
  std::string uuid;
  Smap map;
  Bmd bmd;
  std::set<std::string> live;                  ///< ids of nodes whose lease the store holds
  std::map<std::string, std::string> holders;  ///< of each of them, Holder::id; or empty
  /// Ownership of names at this revision; never null in a state that a StateBuilder made.
  std::shared_ptr<const OwnershipState> ownership;
  std::string primary;   ///< id of the proxy that holds the lease of the primary; or empty
  std::string moved_to;  ///< not empty: the cluster's state lives there now, not here
  ClusterConfig config;  ///< settings that operators have made for all nodes
};

/// The target that owns `uname`: HRW over the targets that may own names. Null when there are none.
[[nodiscard]] const Node* owner_of(const Smap& map, std::string_view uname);

}  // namespace tarn::cluster
