#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/cluster/place/hand_over.h"
#include "common/cluster/state/state.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

/// Status that a node reports in live/<id>.
struct LiveRecord {
  Role role = Role::target;
  std::uint64_t map_version = 0;  ///< acknowledged: in force on that node
  std::uint64_t bmd_version = 0;
  // Of targets, as TargetStatus has them.
  std::vector<std::string> under_way = {};
  std::uint64_t moved = 0;
  std::uint64_t drive_set = 0;
  std::uint32_t drives = 0;
  bool coding = false;
  std::uint64_t lost_drives = 0;
  std::string holder = {};  ///< encode(Holder); empty: written by an older version
  bool zones = true;        ///< false: written by a program that places without zones

  bool operator==(const LiveRecord&) const = default;
};
[[nodiscard]] std::string encode(const LiveRecord& record);
/// corrupt, naming the node.
[[nodiscard]] Result<LiveRecord> decode_live(const KeyValue& item);

/// Puts together the ownership in the keys of one revision: the map, the settled version, the
/// records of live nodes (by id).
[[nodiscard]] std::shared_ptr<const OwnershipState> ownership_state(
    Revision revision, const Smap& map, std::uint64_t settled,
    const std::map<std::string, LiveRecord>& live);

/// Names what a key holds in an error: "key /tarn/config of the meta store".
[[nodiscard]] std::string subject_of_key(std::string_view key);

/// The cluster map. corrupt, saying so.
[[nodiscard]] Result<Smap> decode_map(std::string_view text);

/// A number that is kept as decimal text. corrupt, naming the key.
[[nodiscard]] Result<std::uint64_t> decode_number(std::string_view key, std::string_view text);

/// Follows the keys of the meta store and makes ClusterStates of them. A document is read once and
/// not again with each change of another: with many buckets that would keep the loop from renewing
/// leases. Not thread-safe.
class StateBuilder {
 public:
  /// Takes all keys under keys::kAll at one revision.
  void reset(const RangeResult& all);
  void apply(const WatchBatch& batch);
  /// Revision of the store at which a watch goes on.
  [[nodiscard]] Revision revision() const { return revision_; }
  /// The same counted on from the stores that the cluster had before (ClusterState::revision).
  [[nodiscard]] Revision ordinal() const;
  /// The state at this revision. not_found when the store has no cluster yet, corrupt when a
  /// document cannot be read, unsupported when its format is of a newer version.
  [[nodiscard]] Result<std::shared_ptr<const ClusterState>> build();

  /// Value of a key, with its parsed form when it is a large document or one of many.
  struct Value {
    std::string text;
    std::optional<Smap> map = {};
    std::optional<BucketRecord> bucket = {};
  };

 private:
  Revision revision_ = 0;
  std::map<std::string, Value> values_;
};

}  // namespace tarn::cluster
