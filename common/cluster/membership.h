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
#include "common/cluster/cluster_view.h"
#include "common/cluster/meta_store.h"
#include "common/cluster/rhythm.h"
#include "common/cluster/state.h"
#include "common/cluster/state_builder.h"

namespace tarn::cluster {

/// What a node knows about its own lease. It counts on CLOCK_BOOTTIME from when it *sent* the last
/// renewal that succeeded, less an eighth of the term: so it knows before the cluster does
/// (design.md, 3). Thread-safe, no locks: asked before every acknowledgement.
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

/// Adds `node` to `map`, or gives the entry of that id its role and addresses; flags of one
/// that was there stay, but it is not down any more. The first proxy becomes the primary that
/// AIStore's clients see. True, and the version is one higher, when something changed; the targets
/// that owned names until then are a past set when they are others than now.
[[nodiscard]] bool admit(Smap& map, const Node& node);

/// Registers this node in the cluster map (compare-and-swap, version + 1 when something changed)
/// and keeps its lease: live/<id> under a lease renewed four times a term, with the versions of map
/// and bucket metadata that this node has acknowledged, and a target's word of its writes.
/// live/<id> is written by compare-and-swap only. A lease counts once the view has the revision at
/// which it was taken (docs/decisions/011), and while live/<id> is this process's. join(), keep()
/// and leave() run on one loop, one after the other; the rest is thread-safe behind join(). All
/// arguments must outlive it.
class Membership {
 public:
  Membership(MetaStore& store, ClusterView& view, Node self, Clock& clock, LeaseTerm term = {});
  ~Membership();

  /// Adds or updates the node in the map, takes a lease and the incarnation, and brings the view up
  /// to date. Tries until it works; fails for what no repetition mends: a store that refuses us
  /// (unauthenticated, forbidden, unsupported), or that is damaged; conflict when another process
  /// is this node and keeps its lease. Ends when cancelled.
  Task<Status> join();
  /// Renews four times a term, answered or not, and takes a new lease when the old one is gone;
  /// writes acknowledged versions into live/<id> when they change. Renews no more when the view has
  /// not been up to date for one term. Ends when cancelled.
  Task<void> keep();
  /// Gives the lease back, so that others see at once that this node is down. Best effort, 2 s.
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
  /// Asked before each acknowledgement is written: what this node has really put in force; the
  /// versions of the view when nothing is set. The role is filled in. Before join(); thread-safe.
  void acknowledge_with(std::function<LiveRecord()> word);
  /// The word has changed: it is asked for, and written, soon. Any thread.
  void word_changed();
  /// The flags with which an operator had this node taken out of the map; nothing while it is in
  /// it, or was taken out otherwise. Such a node gives its lease back and takes none, until
  /// come_back(). It was in the view, with its flags, before anybody took it out. Thread-safe.
  [[nodiscard]] std::optional<std::uint64_t> dismissed() const;
  /// It was, and holds no lease any more: no change of the cluster by it is on its way.
  [[nodiscard]] bool is_outside() const;
  /// Has a node that was dismissed register again, as a new one does, and waits until it has.
  /// Errors: what refused it; conflict when it is in the cluster. Behind join(), any loop.
  Task<Status> come_back();
  /// Asked when a target is to join that is not in the map: whether it holds nothing. Nothing set:
  /// it does. Before join().
  void empty_if(std::function<Task<Result<bool>>()> is_empty);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  Node self_;
  LeaseClock lease_;
  std::atomic<std::int64_t> lease_revision_ = 0;  ///< of the lease that lease_ counts
  std::atomic<std::uint64_t> incarnation_ = 0;
};

/// Waits until every live node has acknowledged bucket metadata `bmd_version` or lost its lease.
/// timeout after `limit`, naming a node; unavailable when the store cannot be read.
Task<Status> wait_acknowledged(MetaStore& store, ClusterView& view, std::uint64_t bmd_version,
                               std::chrono::milliseconds limit);

/// Adds what the store holds of a bucket to a transaction. `made_by` is random: it tells whose
/// transaction it was when an outcome is unknown.
void put_bucket(const BucketRecord& bucket, const std::string& made_by, Transaction& out);

/// Changes of buckets, each one transaction that compares and bumps the counter of bucket changes,
/// and brings the view up to date. Errors: bucket_exists, bucket_not_found, unavailable. An unknown
/// outcome is resolved by reading again, within `unavailable` when even that fails.
Task<Result<BucketRecord>> create_bucket(MetaStore& store, ClusterView& view, api::Bucket name,
                                         BucketProps props, Clock& clock);
/// Destroys a bucket in two steps, each of which every live node has acknowledged before the next:
/// it is marked, and who knows that refuses (BucketRecord::ending); then it is gone. Without the
/// first, who has not heard of the end yet would show objects of which others say that they are
/// no more. timeout when a node has not acknowledged within `limit`, twice that in all: it is
/// marked then, or gone, and the same may be asked for again. bucket_not_found when there is none.
Task<Status> destroy_bucket(MetaStore& store, ClusterView& view, api::Bucket name,
                            std::chrono::milliseconds limit);
/// What a node says of such a bucket.
[[nodiscard]] Error being_destroyed(const api::Bucket& name);
/// Gives bucket `from` the name `to`, in one transaction: its id, its objects and where they lie
/// stay (docs/decisions/009). bucket_exists when `to` exists, unless it is `from` renamed before.
/// With `given_by`, what name_given_by() said of `from` when that was asked for: bucket_not_found
/// when it says something else now. Returns the bucket as it is then.
Task<Result<BucketRecord>> rename_bucket(MetaStore& store, ClusterView& view, api::Bucket from,
                                         api::Bucket to,
                                         std::optional<std::string> given_by = std::nullopt);
/// Which change gave a bucket this name: another one each time, so it tells whether the name was
/// given away and back. Empty when no bucket has it. unavailable when the store cannot be read.
Task<Result<std::string>> name_given_by(MetaStore& store, api::Bucket name);
/// Gives the bucket what `change` makes of its properties; nothing is written when that is what it
/// has. `change` may be asked several times. Returns the bucket as it is then. Errors of `change`
/// are passed on. Another number of copies on nodes comes with a new map (BucketRecord::pieces());
/// unsupported for a bucket that has had copies on drives.
using PropsChange = std::function<Result<BucketProps>(const BucketProps&)>;
Task<Result<BucketRecord>> change_bucket(MetaStore& store, ClusterView& view, api::Bucket name,
                                         PropsChange change);

/// Makes what a new cluster has: uuid, empty map, the default bucket (none when its name is empty).
/// Does nothing on one that exists. Returns the cluster's uuid. `secret_check`, if not empty, is
/// left with a new cluster (check_secret()). unsupported when another store has the cluster's state
/// now.
Task<Result<std::string>> bootstrap(MetaStore& store, const std::string& default_bucket,
                                    Clock& clock, std::string secret_check = "");

}  // namespace tarn::cluster
