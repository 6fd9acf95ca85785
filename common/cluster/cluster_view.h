#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/base/snapshot.h"
#include "common/cluster/meta_store.h"
#include "common/cluster/state.h"

namespace tarn::cluster {

/// Follows the meta store and keeps the newest ClusterState as a snapshot. Thread-safe.
class ClusterView {
 public:
  explicit ClusterView(MetaStore& store, Clock& clock);

  /// Ranges once, so that state() is real. unavailable when the store cannot be reached.
  Task<Status> load();
  /// Loads and watches for ever, with back-off and jitter when the store is away; ends when
  /// cancelled.
  Task<void> follow();

  [[nodiscard]] std::shared_ptr<const ClusterState> state() const { return state_.get(); }
  /// A state whose map and bucket metadata are at least as new; reads the store when ours is older.
  Task<Result<std::shared_ptr<const ClusterState>>> at_least(std::uint64_t map_version,
                                                             std::uint64_t bmd_version);
  /// Reads the store now: what a proxy does before it says that a bucket does not exist.
  Task<Result<std::shared_ptr<const ClusterState>>> fresh();
  /// When the last successful read or watch event was; a node that could not read the map for one
  /// term stops renewing its lease.
  [[nodiscard]] BootTime last_contact() const;
  /// Called on the follower's loop after each new state, with the old and the new one.
  void on_change(std::function<void(const ClusterState&, const ClusterState&)> listener);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  Snapshot<ClusterState> state_;
};

}  // namespace tarn::cluster
