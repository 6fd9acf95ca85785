#include "common/cluster/store/meta_model.h"

#include <algorithm>

#include "common/base/check.h"

namespace tarn::cluster {
namespace {

constexpr std::size_t kBatchEvents = 100;

/// True if `key` lies in [begin, end) by etcd's rules for range_end.
bool in_range(const std::string& key, const std::string& begin, const std::string& end) {
  if (end.empty()) return key == begin;
  const bool open_ended = end.size() == 1 && end[0] == '\0';
  return key >= begin && (open_ended || key < end);
}

}  // namespace

MetaModel::MetaModel(Revision revision, std::vector<KeyValue> items,
                     const std::vector<LeaseRecord>& leases, BootTime now)
    : revision_(revision), oldest_(revision + 1) {
  for (const LeaseRecord& lease : leases) leases_[lease.id] = {lease.ttl, now + lease.ttl, {}};
  for (KeyValue& item : items) {
    if (const auto lease = leases_.find(item.lease); lease != leases_.end())
      lease->second.keys.insert(item.key);
    items_[item.key] = std::move(item);
  }
}

RangeResult MetaModel::range(const RangeRequest& request) const {
  RangeResult out;
  out.revision = revision_;
  for (auto it = items_.lower_bound(request.key);
       it != items_.end() && in_range(it->first, request.key, request.range_end); ++it) {
    if (request.limit > 0 && out.items.size() == static_cast<std::size_t>(request.limit)) break;
    out.items.push_back(it->second);
  }
  return out;
}

Result<std::optional<Change>> MetaModel::plan(const Transaction& transaction) const {
  std::set<std::string> written;
  for (const Put& put : transaction.puts) {
    if (!written.insert(put.key).second)
      return fail(Errc::invalid_argument, "the transaction puts key '{}' twice", put.key);
    for (const Delete& del : transaction.deletes)
      if (in_range(put.key, del.key, del.range_end))
        return fail(Errc::invalid_argument, "the transaction puts and deletes key '{}'", put.key);
  }
  for (const Compare& compare : transaction.compare) {
    const auto found = items_.find(compare.key);
    Revision have = 0;
    if (found != items_.end())
      have = compare.what == Compare::What::mod_revision ? found->second.mod_revision
                                                         : found->second.create_revision;
    if (have != compare.revision) return std::optional<Change>();
  }
  Change change;
  const Revision next = revision_ + 1;
  for (const Put& put : transaction.puts) {
    if (put.lease != 0 && !leases_.contains(put.lease))
      return fail(Errc::not_found, "lease {} of key '{}' has ended", put.lease, put.key);
    const auto found = items_.find(put.key);
    const Revision created = found == items_.end() ? next : found->second.create_revision;
    change.puts.push_back({put.key, put.value, created, next, put.lease});
  }
  std::set<std::string> deleted;
  for (const Delete& del : transaction.deletes)
    for (auto it = items_.lower_bound(del.key);
         it != items_.end() && in_range(it->first, del.key, del.range_end); ++it)
      deleted.insert(it->first);
  change.deletes.assign(deleted.begin(), deleted.end());
  change.revision = change.empty() ? revision_ : next;
  return std::optional<Change>(std::move(change));
}

Change MetaModel::plan_grant(LeaseRecord lease) const {
  Change change;
  change.revision = revision_;
  change.granted.push_back(lease);
  return change;
}

Change MetaModel::plan_end(const std::vector<LeaseId>& leases) const {
  Change change;
  for (const LeaseId id : leases) {
    const auto found = leases_.find(id);
    if (found == leases_.end()) continue;
    change.ended.push_back(id);
    change.deletes.insert(change.deletes.end(), found->second.keys.begin(),
                          found->second.keys.end());
  }
  change.revision = change.deletes.empty() ? revision_ : revision_ + 1;
  return change;
}

void MetaModel::apply(const Change& change, BootTime now) {
  TARN_CHECK(change.revision == revision_ || change.revision == revision_ + 1);
  for (const LeaseRecord& lease : change.granted)
    leases_[lease.id] = {lease.ttl, now + lease.ttl, {}};
  for (const KeyValue& put : change.puts) {
    KeyValue& item = items_[put.key];
    detach(item);
    item = put;
    if (const auto lease = leases_.find(put.lease); lease != leases_.end())
      lease->second.keys.insert(put.key);
  }
  for (const std::string& key : change.deletes) {
    const auto found = items_.find(key);
    if (found == items_.end()) continue;
    detach(found->second);
    items_.erase(found);
  }
  for (const LeaseId id : change.ended) leases_.erase(id);
  if (change.revision != revision_) remember(change);
  revision_ = change.revision;
}

void MetaModel::detach(const KeyValue& item) {
  if (const auto lease = leases_.find(item.lease); lease != leases_.end())
    lease->second.keys.erase(item.key);
}

void MetaModel::remember(const Change& change) {
  WatchBatch batch;
  batch.revision = change.revision;
  for (const KeyValue& put : change.puts) batch.events.push_back({WatchEvent::Type::put, put});
  for (const std::string& key : change.deletes)
    batch.events.push_back({WatchEvent::Type::del, {key, "", 0, change.revision, 0}});
  history_events_ += batch.events.size();
  history_.push_back(std::move(batch));
  while (history_events_ > kHistoryEventsMax) {
    history_events_ -= history_.front().events.size();
    oldest_ = history_.front().revision + 1;
    history_.pop_front();
  }
}

Result<std::chrono::seconds> MetaModel::keep_alive(LeaseId lease, BootTime now) {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || found->second.deadline <= now)
    return fail(Errc::not_found, "lease {} has ended", lease);
  found->second.deadline = now + found->second.ttl;
  return found->second.ttl;
}

Result<LeaseState> MetaModel::time_to_live(LeaseId lease, BootTime now) const {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || found->second.deadline <= now)
    return fail(Errc::not_found, "lease {} has ended", lease);
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(found->second.deadline - now);
  const auto& keys = found->second.keys;
  return LeaseState{left, found->second.ttl, {keys.begin(), keys.end()}};
}

std::vector<LeaseId> MetaModel::expired(BootTime now) const {
  std::vector<LeaseId> out;
  for (const auto& [id, lease] : leases_)
    if (lease.deadline <= now) out.push_back(id);
  return out;
}

std::optional<BootTime> MetaModel::next_deadline() const {
  std::optional<BootTime> out;
  for (const auto& [id, lease] : leases_)
    out = std::min(out.value_or(lease.deadline), lease.deadline);
  return out;
}

Result<WatchBatch> MetaModel::changes(const std::string& prefix, Revision from) const {
  if (from < oldest_)
    return fail(Errc::conflict, "revision {} is not kept any more: the oldest is {}", from,
                oldest_);
  WatchBatch out;
  out.revision = std::max(from - 1, oldest_ - 1);
  auto it =
      std::lower_bound(history_.begin(), history_.end(), from,
                       [](const WatchBatch& batch, Revision at) { return batch.revision < at; });
  for (; it != history_.end() && out.events.size() < kBatchEvents; ++it) {
    for (const WatchEvent& event : it->events)
      if (event.item.key.starts_with(prefix)) out.events.push_back(event);
    out.revision = it->revision;
  }
  return out;
}

}  // namespace tarn::cluster
