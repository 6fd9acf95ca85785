#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

struct LeaseRecord {
  LeaseId id = 0;
  std::chrono::seconds ttl{0};
};

/// Changes of one commit of the embedded store: decided by MetaModel, made durable by MetaDatabase,
/// and only then applied.
struct Change {
  Revision revision = 0;  ///< of the store after the change
  std::vector<KeyValue> puts;
  std::vector<std::string> deletes;
  std::vector<LeaseRecord> granted;
  std::vector<LeaseId> ended;

  [[nodiscard]] bool empty() const {
    return puts.empty() && deletes.empty() && granted.empty() && ended.empty();
  }
};

/// etcd's semantics over a map in memory: keys with revisions, transactions, leases, and the last
/// changes for watches. Pure: no thread, no disk, and time is passed in. Not thread-safe.
class MetaModel {
 public:
  /// The changes that are kept for watches.
  static constexpr std::size_t kHistoryEventsMax = 10'000;

  /// A store as it was found: `leases` begin a full new term at `now`.
  MetaModel(Revision revision, std::vector<KeyValue> items, const std::vector<LeaseRecord>& leases,
            BootTime now);
  /// An empty store: revision 1, like etcd's.
  MetaModel() : MetaModel(1, {}, {}, BootTime(0)) {}

  [[nodiscard]] Revision revision() const { return revision_; }
  [[nodiscard]] RangeResult range(const RangeRequest& request) const;

  /// Changes that `transaction` would make; none if a comparison does not hold. invalid_argument
  /// when it writes a key twice, not_found when it names a lease that is not there.
  [[nodiscard]] Result<std::optional<Change>> plan(const Transaction& transaction) const;
  [[nodiscard]] Change plan_grant(LeaseRecord lease) const;
  /// The end of leases: they go, and their keys at one revision.
  [[nodiscard]] Change plan_end(const std::vector<LeaseId>& leases) const;
  /// `now` is the begin of the terms of granted leases.
  void apply(const Change& change, BootTime now);

  /// not_found when the lease does not exist, or its time is up.
  Result<std::chrono::seconds> keep_alive(LeaseId lease, BootTime now);
  [[nodiscard]] Result<LeaseState> time_to_live(LeaseId lease, BootTime now) const;
  [[nodiscard]] bool has_lease(LeaseId lease) const { return leases_.contains(lease); }
  /// Leases whose time is up.
  [[nodiscard]] std::vector<LeaseId> expired(BootTime now) const;
  /// End of the next lease.
  [[nodiscard]] std::optional<BootTime> next_deadline() const;

  /// Changes of keys with `prefix` at revision `from` and later, in order: those of as many whole
  /// revisions as make up some 100 events. `revision` is the last one that was looked at, so a
  /// watch goes on after it, also when there were no events. conflict when `from` is no longer
  /// kept.
  [[nodiscard]] Result<WatchBatch> changes(const std::string& prefix, Revision from) const;

 private:
  struct Lease {
    std::chrono::seconds ttl{0};
    BootTime deadline{0};
    std::set<std::string> keys;
  };
  void remember(const Change& change);
  void detach(const KeyValue& item);

  Revision revision_ = 1;
  std::map<std::string, KeyValue> items_;
  std::map<LeaseId, Lease> leases_;
  std::deque<WatchBatch> history_;  // one entry a revision
  std::size_t history_events_ = 0;
  Revision oldest_ = 2;  // the first revision that history_ is complete from
};

}  // namespace tarn::cluster
