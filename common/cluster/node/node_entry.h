#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/cluster/node/holder.h"
#include "common/cluster/state/cluster_view.h"
#include "common/cluster/state/rhythm.h"
#include "common/cluster/state/state.h"
#include "common/cluster/state/state_builder.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

/// Entries that a node writes into the store: its own in the cluster map, and live/<id> with its
/// status, which ends with its lease. Both by compare-and-swap only, so that a late write takes
/// nothing back. Used on one loop, but for lease(). All arguments must outlive it.
class NodeEntry {
 public:
  /// A lease under which the node is registered.
  struct Held {
    LeaseId lease = 0;      ///< 0: none
    Revision revision = 0;  ///< of the store, at which it registered
    BootTime asked{};       ///< time at which the lease was asked for
  };

  NodeEntry(MetaStore& store, ClusterView& view, const Node& self, Clock& clock)
      : store_(store), view_(view), self_(self), clock_(clock) {}

  /// Leases are taken for this term, rounded up to a second as the store counts. Before enter().
  void lease_for(LeaseTerm term) { term_ = std::chrono::ceil<std::chrono::seconds>(term.term); }
  /// Sets a function that is asked when a target that is not in the map is to join: true if it
  /// holds nothing.
  void empty_if(std::function<Task<Result<bool>>()> is_empty) { is_empty_ = std::move(is_empty); }

  /// Takes a lease and registers under it, with the result of `status` at that time. An attempt
  /// whose outcome is unknown is simply made again: it would have written the same, at a lower
  /// revision. Errors: not_found without a cluster; unsupported for a target that may not join;
  /// conflict while another process holds the lease of this node (rival()); those of the store.
  Task<Status> enter(std::function<LiveRecord()> status);
  /// The lease that enter() is about to register under, to be kept meanwhile; 0: none.
  [[nodiscard]] LeaseId entering() const { return entering_; }
  /// Writes `record` into live/<id> if that is news and there is a lease. Can be tried again after
  /// a failure.
  Task<void> say(LiveRecord record);
  /// Content of live/<id>, as far as it is known.
  [[nodiscard]] const LiveRecord& said() const { return said_; }

  /// The process that holds the lease of this node. Set if the last enter() failed with conflict.
  struct Rival {
    Holder holder;
    HolderState state = HolderState::unknown;
  };
  [[nodiscard]] const std::optional<Rival>& rival() const { return rival_; }
  /// Of this process.
  [[nodiscard]] const Holder& holder() const { return holder_; }

  [[nodiscard]] const Held& held() const { return held_; }
  /// held().lease. Any thread.
  [[nodiscard]] LeaseId lease() const { return lease_; }
  /// Drops the node's lease and returns it.
  LeaseId let_go();

 private:
  struct Attempt;
  Task<Result<Attempt>> prepare();
  Task<Status> check_may_join();
  Task<Status> check_zones(const Smap& map);
  Status check_holder(const KeyValue& live, const Smap& map);
  Task<Status> read_said();

  std::chrono::seconds term_ = std::chrono::ceil<std::chrono::seconds>(LeaseTerm().term);
  MetaStore& store_;
  ClusterView& view_;
  const Node& self_;
  Clock& clock_;
  std::function<Task<Result<bool>>()> is_empty_;

  const Holder holder_ = new_holder();
  std::optional<Rival> rival_;
  Held held_;
  std::atomic<LeaseId> lease_{0};
  LeaseId entering_ = 0;
  Revision live_revision_ = 0;  // of live/<id>; 0: read it before the next write
  LiveRecord said_;
};

}  // namespace tarn::cluster
