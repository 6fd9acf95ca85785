#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/base/event.h"
#include "common/cluster/state/rhythm.h"
#include "common/cluster/state/state.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

/// Follows the meta store and keeps the newest ClusterState as a snapshot, which never goes back: a
/// store that holds another cluster, or less than it held before, counts as unavailable.
/// Thread-safe. `store` and `clock` must outlive it.
class ClusterView {
 public:
  /// `poll_every`: between requests for the newest versions.
  ClusterView(MetaStore& store, Clock& clock,
              std::chrono::milliseconds poll_every = LeaseTerm().poll_every());
  ~ClusterView();

  /// Ranges once, so that state() is real. unavailable when the store cannot be reached, not_found
  /// when there is no cluster in it yet.
  Task<Status> load();
  /// Loads and watches for ever, with back-off and jitter when the store is away; ends when
  /// cancelled. Asks at intervals for the newest versions, and reads all anew when the watch has
  /// missed them.
  Task<void> follow();

  [[nodiscard]] std::shared_ptr<const ClusterState> state() const;
  /// A state whose map and bucket metadata are at least as new; reads the store when ours is older.
  /// unavailable when the store cannot be reached, or itself has no such version yet.
  Task<Result<std::shared_ptr<const ClusterState>>> at_least(std::uint64_t map_version,
                                                             std::uint64_t bmd_version);
  /// Reads the store now: a proxy does so before it answers that a bucket does not exist.
  Task<Result<std::shared_ptr<const ClusterState>>> fresh();
  /// Time at which the store last answered, and our state was its answer or was made of that. A
  /// node that could not read the map for one term stops renewing its lease.
  [[nodiscard]] BootTime last_contact() const;
  /// Calls `listener` on the follower's loop after each new state, with the old and the new one.
  /// States that load(), fresh() or at_least() brought count as well; several changes may be one
  /// call. A listener that is added while the follower runs gets the changes from then on. Any
  /// thread.
  void on_change(std::function<void(const ClusterState&, const ClusterState&)> listener);
  /// Rings after those calls.
  [[nodiscard]] Event& changed() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tarn::cluster
