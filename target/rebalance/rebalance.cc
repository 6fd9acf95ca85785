// Sends names to other targets when the names have other owners (docs/decisions/011): name and
// generation are offered first, in pages, and the bytes travel only when the receiver lacks them.
// The own copy is deleted when the receiver has it durably and it is still what was sent.

#include "target/rebalance/rebalance.h"

#include <map>
#include <set>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/cluster/place/rebalance_plan.h"
#include "common/obs/log.h"
#include "target/commit/recode.h"
#include "target/node/retry.h"
#include "target/rebalance/move_walk.h"
#include "target/replica/move_copy.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

class Rebalance final : public MoveWalk {
 public:
  Rebalance(TargetNode& node, const Pace& pace, api::MoveProgress& progress,
            std::shared_ptr<const cluster::Ownership> map)
      : MoveWalk(node, pace, progress), map_(std::move(map)) {}

 private:
  [[nodiscard]] bool concerns(const Drive& drive, const cluster::BucketRecord& bucket,
                              const std::string& uname) const override;
  void round_done() override { first_round_ = false; }
  Task<Status> prepare(std::vector<WalkEntry>& entries) override;
  Task<Result<bool>> handle(Drive& drive, const WalkEntry& entry) override;
  void given_up(const WalkEntry& entry, const Error& error) override;

  [[nodiscard]] cluster::NamePlan plan(const std::string& uname,
                                       const cluster::ReplicaCount& count) const;
  [[nodiscard]] cluster::NamePlan plan(const WalkEntry& entry) const {
    return plan(entry.name.uname, entry.bucket->replica_count());
  }
  /// True if it is to be cut into slices, which its owner does: no other target gets a copy of it.
  [[nodiscard]] static bool is_to_be_coded(const WalkEntry& entry) {
    return !entry.record.coding && is_kept_otherwise(entry.bucket->props, entry.record);
  }
  [[nodiscard]] std::string owner_of(const WalkEntry& entry) const {
    return std::string(cluster::writer_of(*map_, cluster::placement_digest(entry.name.uname)));
  }
  [[nodiscard]] Result<Receiver> receiver(const std::string& id) const;
  using Entries = std::vector<WalkEntry*>;
  Task<Result<std::vector<std::size_t>>> offer_to(std::string id, const Entries& entries);
  Task<Status> offer_ours(std::string id, Entries entries);
  Task<Status> ask_for_others(std::string id, Entries entries);
  Task<Result<std::vector<std::size_t>>> offer_patiently(const Receiver& to, const Offer& offer);
  [[nodiscard]] bool is_overtaken(const WalkEntry& entry) const;
  Task<Result<std::optional<Generation>>> send(const WalkEntry& entry);
  Task<Result<bool>> erase(const ObjectName& name, Generation given);

  const std::shared_ptr<const cluster::Ownership> map_;
  /// True until names that stay here have been sent to all of their other replicas, by this target
  /// or other ones.
  bool first_round_ = true;
  std::set<std::string> away_;  // targets that did not answer: nothing more is offered to them
};

cluster::NamePlan Rebalance::plan(const std::string& uname,
                                  const cluster::ReplicaCount& count) const {
  return cluster::plan_name(*map_, node_.id, cluster::placement_digest(uname), count);
}

/// A name that stays here may have new replicas besides: they get it once.
bool Rebalance::concerns(const Drive&, const cluster::BucketRecord& bucket,
                         const std::string& uname) const {
  const auto plan = this->plan(uname, bucket.replica_count());
  return !plan.keep || (first_round_ && !plan.send.empty());
}

Result<Receiver> Rebalance::receiver(const std::string& id) const {
  const cluster::Node* node = state_->map.find(id);
  if (node == nullptr)
    return fail(Errc::unavailable, "target t[{}] is in ownership map {} and not in the cluster map",
                id, map_->version);
  return Receiver{*node, map_->version, state_->bmd.version};
}

/// Offers each entry to the targets that should have it. Entries of one page are of one bucket.
Task<Status> Rebalance::prepare(std::vector<WalkEntry>& entries) {
  std::map<std::string, Entries> ours;
  std::map<std::string, Entries> others;
  for (WalkEntry& entry : entries) {
    const auto wanted = plan(entry);
    entry.given_up = wanted.send.empty();
    if (entry.given_up) note_failure(1, {Errc::unavailable, "no target owns " + entry.name.uname});
    // The replicas of a record get that from the owner when it has cut the object.
    const std::string owner = is_to_be_coded(entry) ? owner_of(entry) : "";
    for (const std::string& id : wanted.send)
      (owner.empty() || id == owner ? ours : others)[id].push_back(&entry);
    // The target that was to send it to them may be away: in the next round it is sent from here.
    for (const std::string& id : wanted.confirm)
      (first_round_ || (!owner.empty() && id != owner) ? others : ours)[id].push_back(&entry);
  }
  std::vector<Task<Status>> offers;
  offers.reserve(ours.size() + others.size());
  for (auto& [id, theirs] : ours) offers.push_back(offer_ours(id, std::move(theirs)));
  for (auto& [id, theirs] : others) offers.push_back(ask_for_others(id, std::move(theirs)));
  const auto all = co_await gather(std::move(offers));
  for (const Status& each : all) CO_TRY_OK(each);
  co_return Status();
}

/// Returns which of the entries that target lacks.
Task<Result<std::vector<std::size_t>>> Rebalance::offer_to(std::string id, const Entries& entries) {
  if (away_.contains(id)) co_return fail(Errc::unavailable, "target t[{}] did not answer", id);
  CO_TRY(const Receiver to, receiver(id));
  TARN_CHECK(!entries.empty() && entries.size() <= Offer::kNamesMax);
  Offer offer;
  offer.bucket = entries.front()->name.bucket;
  for (const WalkEntry* entry : entries)
    offer.names.push_back({entry->name.object, entry->record.kind, entry->record.generation});
  co_return co_await offer_patiently(to, offer);
}

Task<Status> Rebalance::offer_ours(std::string id, Entries entries) {
  const auto answer = co_await offer_to(id, entries);
  if (answer) {
    for (const std::size_t each : *answer) entries[each]->to.push_back(id);
    co_return Status();
  }
  const Error& why = answer.error();
  if (why.code == Errc::cancelled || why.code == Errc::conflict) co_return fail(why);
  for (WalkEntry* entry : entries) entry->given_up = true;
  if (why.code == Errc::bucket_not_found) co_return Status();
  if (away_.insert(id).second)
    obs::log("target").warn("rebalance: names not taken target={} map={} err={}", id, map_->version,
                            why.message);
  note_failure(entries.size(), why);
  co_return Status();
}

Task<Status> Rebalance::ask_for_others(std::string id, Entries entries) {
  const auto answer = co_await offer_to(id, entries);
  if (answer) {
    for (const std::size_t each : *answer) entries[each]->awaited = true;
    co_return Status();
  }
  const Error& why = answer.error();
  if (why.code == Errc::cancelled || why.code == Errc::conflict) co_return fail(why);
  for (WalkEntry* entry : entries) entry->awaited = true;
  co_return Status();
}

Task<Result<std::vector<std::size_t>>> Rebalance::offer_patiently(const Receiver& to,
                                                                  const Offer& offer) {
  for (int attempts = 0;;) {
    CO_TRY_OK(pace_.go_on());
    auto answer = co_await while_walking(pace_, offer_names(node_, to, offer));
    if (answer) co_return answer;
    const bool again = co_await try_again(answer.error(), attempts, pace_.stop);
    CO_TRY_OK(pace_.go_on());
    if (!again) co_return answer;
  }
}

/// The other names of that target need not wait as long.
void Rebalance::given_up(const WalkEntry& entry, const Error& error) {
  if (error.code == Errc::disconnected) away_.insert(entry.to.begin(), entry.to.end());
}

/// True if all present replicas have something as new as this pending version. This target is no
/// longer a replica: it cannot be sent that, and its own is not needed (docs/decisions/019, attack
/// 55).
bool Rebalance::is_overtaken(const WalkEntry& entry) const {
  return forward_by_owner(node_, entry.name.bucket) && !pending_by(entry.record).empty() &&
         entry.to.empty() && !entry.awaited && !plan(entry).keep;
}

Task<Result<bool>> Rebalance::handle(Drive&, const WalkEntry& entry) {
  Generation given = entry.record.generation;
  if (is_overtaken(entry)) co_return co_await erase(entry.name, given);
  if (is_to_be_coded(entry) && owner_of(entry) == node_.id)
    co_return co_await recode(node_, entry.name);
  // The sender of a version is authoritative for it.
  if (!pending_by(entry.record).empty()) CO_TRY_OK(co_await resolve_copies(node_, entry.name));
  if (!entry.to.empty()) {
    CO_TRY(const auto sent, co_await send(entry));
    if (!sent) co_return true;  // gone
    given = *sent;
  }
  if (plan(entry).keep) co_return true;
  if (entry.awaited) co_return false;
  CO_FAIL_POINT("move.before_erase");
  co_return co_await erase(entry.name, given);
}

/// Sends the newest version of an entry to all targets that want it. Returns its generation;
/// nothing when there is no longer one.
Task<Result<std::optional<Generation>>> Rebalance::send(const WalkEntry& entry) {
  using Sent = std::optional<Generation>;
  CO_TRY(const auto outgoing, co_await open_outgoing(node_, entry.name, *entry.bucket));
  if (!outgoing) co_return Sent();
  const auto& [attribute, object] = *outgoing;
  for (const std::string& id : entry.to) {
    if (away_.contains(id)) co_return fail(Errc::io, "target t[{}] did not answer", id);
    CO_TRY(const Receiver to, receiver(id));
    const Toll toll = [this](std::uint64_t bytes) { return pace_.pass(bytes); };
    auto copy = send_copy(node_, to, attribute, object.get(), {.toll = toll});
    CO_TRY(const bool stored, co_await while_walking(pace_, std::move(copy)));
    if (!object || !stored) continue;
    auto& sent = progress_.counts.sent[id];
    ++sent.objects;
    sent.bytes += attribute.record.file_bytes();
    ++progress_.counts.objects;
    progress_.counts.bytes += attribute.record.file_bytes();
  }
  co_return Sent(attribute.record.generation);
}

/// True if the name is no longer here. False if it was changed meanwhile, or is being changed.
Task<Result<bool>> Rebalance::erase(const ObjectName& name, Generation given) {
  const auto held = co_await node_.store.locks().acquire(name.key());
  CO_TRY_OK(pace_.go_on());  // by a newer map it may be ours
  if (!node_.owned.is_quiescent(name.uname)) co_return false;
  CO_TRY(auto present, co_await node_.store.find_all(name));
  if (present.empty()) co_return true;
  if (SAFETY("safety.erase_what_was_given") && present.front().record.generation != given)
    co_return false;
  progress_.counts.deleted += present.size();
  CO_TRY_OK(co_await node_.store.forget(name, std::move(present)));
  co_return true;
}

}  // namespace

Task<Status> rebalance_walk(TargetNode& node, std::shared_ptr<const cluster::Ownership> map,
                            api::MoveProgress& progress, std::stop_token stop) {
  progress.kind = "rebalance";
  progress.map_version = map->version;
  CO_TRY(const auto walk, co_await node.moves.begin_rebalance(map));
  const Pace pace{node.moves.limits, walk, node.clock, std::move(stop)};
  Rebalance rebalance(node, pace, progress, std::move(map));
  co_return co_await rebalance.run();
}

}  // namespace tarn::target
