#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/cluster/meta_store.h"
#include "common/cluster/state.h"

namespace tarn::cluster {

/// What a node says about itself in live/<id>.
struct LiveRecord {
  Role role = Role::target;
  std::uint64_t map_version = 0;  ///< acknowledged: in force on that node
  std::uint64_t bmd_version = 0;
};
[[nodiscard]] std::string encode(const LiveRecord& record);
/// corrupt, naming the node.
[[nodiscard]] Result<LiveRecord> decode_live(const KeyValue& item);

/// A number that is kept as decimal text. corrupt, naming the key.
[[nodiscard]] Result<std::uint64_t> decode_number(std::string_view key, std::string_view text);

/// Follows the keys of the meta store and makes ClusterStates of them. Not thread-safe.
class StateBuilder {
 public:
  /// Everything under keys::kAll at one revision.
  void reset(const RangeResult& all);
  void apply(const WatchBatch& batch);
  /// Of the store: where a watch goes on.
  [[nodiscard]] Revision revision() const { return revision_; }
  /// The same counted on from the stores that the cluster had before (ClusterState::revision).
  [[nodiscard]] Revision ordinal() const;
  /// The state at this revision. not_found when there is no cluster in the store yet, corrupt when
  /// a document cannot be read, unsupported when its format is of a newer version.
  [[nodiscard]] Result<std::shared_ptr<const ClusterState>> build() const;

 private:
  Revision revision_ = 0;
  std::map<std::string, std::string> values_;
};

}  // namespace tarn::cluster
