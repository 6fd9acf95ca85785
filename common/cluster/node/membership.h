#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/cluster/state/cluster_view.h"
#include "common/cluster/state/rhythm.h"
#include "common/cluster/state/state.h"
#include "common/cluster/state/state_builder.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

/// A node's own view of its lease. It counts on CLOCK_BOOTTIME from when it *sent* the last renewal
/// that succeeded, less an eighth of the term: so it knows before the cluster does
/// (docs/architecture.md). Thread-safe, no locks: asked before every acknowledgement.
class LeaseClock {
 public:
  explicit LeaseClock(Clock& clock, LeaseTerm term = {})
      : clock_(clock), term_(term), valid_until_(clock.boot_time().count()) {}

  void renewed(BootTime sent) { valid_until_ = (sent + term_.term - term_.margin()).count(); }
  [[nodiscard]] LeaseTerm term() const { return term_; }
  void lost() {
    const std::int64_t now = clock_.boot_time().count();
    if (now < valid_until_.load()) valid_until_ = now;
  }
  [[nodiscard]] bool valid() const { return clock_.boot_time().count() < valid_until_.load(); }
  /// Seconds since the lease ended (or since the start, when there has been none), rounded up, at
  /// least 1, for the Tarn-Stale header; 0 while it holds.
  [[nodiscard]] std::int64_t stale_seconds() const;

 private:
  Clock& clock_;
  LeaseTerm term_;
  std::atomic<std::int64_t> valid_until_;
};

/// Adds `node` to `map`, or sets role and addresses in the entry of that id; flags of one that was
/// there stay, but it is no longer down, and its zone if `node` has none. The first proxy becomes
/// the primary that AIStore's clients see. True, and the version is one higher, when something
/// changed; the targets that owned names until then are a past epoch if they differ from those of
/// now.
[[nodiscard]] bool admit(Smap& map, const Node& node);

/// Registers this node in the cluster map (compare-and-swap, version + 1 when something changed)
/// and keeps its lease, renewed four times a term. live/<id>, under the lease, holds the versions
/// of map and bucket metadata that this node has acknowledged, and a target's report of its writes.
/// live/<id> is written by compare-and-swap only. A lease counts once the view has the revision at
/// which it was taken (docs/decisions/011), and while live/<id> is this process's. join(), keep()
/// and leave() run on one loop, one after the other; the rest is thread-safe after join(). All
/// arguments must outlive it.
class Membership {
 public:
  Membership(MetaStore& store, ClusterView& view, Node self, Clock& clock, LeaseTerm term = {});
  ~Membership();

  /// Adds or updates the node in the map, takes a lease and the incarnation, and brings the view up
  /// to date. Tries until it works; fails for errors that no repetition mends: a store that refuses
  /// us (unauthenticated, forbidden, unsupported), or that is damaged; conflict when another
  /// process is this node and keeps its lease. Ends when cancelled.
  Task<Status> join();
  /// Renews four times a term, answered or not, and takes a new lease when the old one is gone;
  /// writes acknowledged versions into live/<id> when they change. Stops renewing when the view has
  /// not been up to date for one term. Ends when cancelled.
  Task<void> keep();
  /// Revokes the lease, so that other nodes see at once that this node is down. Best effort, 2 s.
  Task<void> leave();

  [[nodiscard]] const LeaseClock& lease() const { return lease_; }
  /// The lease under which this node may act now, known by the revision at which it registered
  /// under it, as ClusterState counts it; 0: none.
  [[nodiscard]] std::int64_t lease_now() const;
  /// The revision at which this start of the node registered, as ClusterState counts it: part of
  /// every Generation.
  [[nodiscard]] std::uint64_t incarnation() const { return incarnation_; }
  /// The lease that the node has now, for keys that shall end with it; 0: none.
  [[nodiscard]] LeaseId lease_id() const;
  [[nodiscard]] const Node& self() const { return self_; }
  /// Sets a function that is asked before each acknowledgement is written: it returns the versions
  /// that this node has really put in force. By default those of the view. The role is filled in.
  /// Before join(); thread-safe.
  void acknowledge_with(std::function<LiveRecord()> status);
  /// The status has changed: it is asked for, and written, soon. Any thread.
  void status_changed();
  /// The flags with which an operator had this node taken out of the map; none while it is in it,
  /// or was taken out otherwise. Such a node revokes its lease and takes none, until come_back().
  /// The view had the node with these flags before it was taken out. Thread-safe.
  [[nodiscard]] std::optional<std::uint64_t> dismissed() const;
  /// True if it was dismissed and no longer holds a lease: no change of the cluster by it is on its
  /// way.
  [[nodiscard]] bool is_outside() const;
  /// Has a node that was dismissed register again, as a new one does, and waits until it has.
  /// Errors: the reason of a refusal; conflict when it is in the cluster. After join(), on any
  /// loop.
  Task<Status> come_back();
  /// Sets a function that is asked when a target that is not in the map is to join: true if it
  /// holds nothing. By default it holds something. Before join().
  void empty_if(std::function<Task<Result<bool>>()> is_empty);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  Node self_;
  LeaseClock lease_;
  std::atomic<std::int64_t> lease_revision_ = 0;  ///< of the lease that lease_ counts
  std::atomic<std::uint64_t> incarnation_ = 0;
};

}  // namespace tarn::cluster
