#include "target/repair/lost_records.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "common/api/mirror_props.h"
#include "common/base/check.h"
#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/commit/recode.h"
#include "target/drive/record_pages.h"
#include "target/node/move_pace.h"
#include "target/node/node_call.h"
#include "target/node/rebuild_pace.h"
#include "target/replica/away_drive.h"
#include "target/replica/move_copy.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kLostRecordsLookEvery = 500ms;
constexpr std::chrono::seconds kLostRecordsAgainFirst{2};
constexpr std::chrono::seconds kLostRecordsAgainMost{60};
constexpr PageSize kLostRecordsPage{.records = 20'000, .items = 256};
constexpr std::size_t kLostRecordsWorkers = 4;
constexpr int kLostRecordsRestFactor = 9;
/// Names that are remembered to be sent; the other names are found by the next look.
constexpr std::size_t kLostRecordsWantedMost = 100'000;
/// A target that takes none of so many in a row takes nothing for now.
constexpr std::size_t kLostRecordsFailuresMost = 8;
constexpr http::CallLimits kLostRecordsAskLimits{.connect = 1s, .total = 4s};

/// Other targets that believe that drives of theirs are lost, and which: TargetStatus::lost_drives.
using Losers = std::map<std::string, std::uint64_t>;

/// Basis of a look: when it changes, other names may be missing, or more be here to send.
struct GivenBy {
  std::uint64_t map_version = 0;
  Losers losers;
  std::set<std::string> drives;  ///< in service here, by id

  bool operator==(const GivenBy&) const = default;
};

GivenBy lost_records_present(const TargetNode& node, const cluster::OwnershipState& state) {
  GivenBy out{state.map->version, {}, {}};
  for (const cluster::TargetStatus& status : state.live)
    if (status.lost_drives != 0 && status.id != node.id) out.losers[status.id] = status.lost_drives;
  for (const auto& drive : node.store.drives())
    if (drive->in_service()) out.drives.insert(drive->id());
  return out;
}

/// One look through what lies here, and the work that it finds.
class Giving {
 public:
  Giving(TargetNode& node, const GivenBy& by) : node_(node), by_(by), state_(node.view.state()) {}

  /// Sends what is lacking. False: something could only be sent later.
  Task<bool> run();
  [[nodiscard]] bool gave_some() const { return !given_.empty(); }

 private:
  /// A name that a target may lack.
  struct Offered {
    std::string id;
    OfferedName name;
    std::uint64_t bytes = 0;  // of its file
  };
  /// A name that a target lacks.
  struct Wanted {
    const cluster::BucketRecord* bucket;
    std::string id;
    std::string object;
    std::uint64_t bytes = 0;
    std::size_t missing = 0;  // number of targets that lack it
  };
  Task<void> look_through();
  Task<Status> walk(std::shared_ptr<Drive> drive, const cluster::BucketRecord& bucket);
  void add_offers(const cluster::BucketRecord& bucket, std::string_view object,
                  const io::ObjectRecord& record, std::vector<Offered>& to) const;
  Task<Status> offer(const cluster::BucketRecord& bucket, std::vector<Offered> page);
  void queue(std::vector<Wanted> wanted);
  Task<Status> give_next();
  Task<Status> give(const Wanted& wanted);
  Task<Status> send(const Wanted& wanted, RebuildWatch::Making& making);
  Task<Status> wait_turn(std::uint64_t bytes);
  Task<Status> pay(std::uint64_t bytes, RebuildWatch::Making& making);
  Task<void> ask_to_look();
  void note_failure(const std::string& id, const Error& error);
  [[nodiscard]] Result<Receiver> receiver(const std::string& id) const;
  [[nodiscard]] bool is_current() const {
    return node_.view.state()->map.version == state_->map.version;
  }

  TargetNode& node_;
  const GivenBy& by_;
  const std::shared_ptr<const cluster::ClusterState> state_;
  std::map<std::size_t, std::deque<Wanted>, std::greater<>> wanted_;  // by Wanted::missing
  std::size_t remembered_ = 0;
  RebuildWatch::Todo todo_;
  std::map<std::string, Error> refused_;         // targets that take nothing now
  std::map<std::string, std::size_t> failures_;  // in a row
  std::map<std::string, std::size_t> given_;
  bool all_ = true;
  std::string error_;
};

/// Adds the other replicas of a record that may have lost their own. A plain object that is still
/// to be cut has no copies (recode.h). On the drive's threads.
void Giving::add_offers(const cluster::BucketRecord& bucket, std::string_view object,
                        const io::ObjectRecord& record, std::vector<Offered>& to) const {
  const bool is_single = !record.coding && is_kept_otherwise(bucket.props, record);
  if (is_single) return;
  const auto replicas =
      replicas_of(*state_->ownership->map, bucket.placement_name(object), bucket.replica_count());
  if (std::find(replicas.begin(), replicas.end(), node_.id) == replicas.end()) return;
  for (const std::string& id : replicas)
    if (by_.losers.contains(id))
      to.push_back(
          {id, {std::string(object), record.kind, record.generation}, record.file_bytes()});
}

/// Waits until so many bytes may be sent; cancelled when rebuilds are stopped.
Task<Status> Giving::wait_turn(std::uint64_t bytes) {
  while (true) {
    if (node_.rebuild.is_stopped()) co_return fail(Errc::cancelled, "it was told to stop");
    if (!is_current()) co_return fail(Errc::cancelled, "the map has changed");
    const auto wait = rebuild_wait(node_, bytes);
    if (wait.by == HeldBy::nothing) co_return Status();
    node_.given_copies.held(wait.by, node_.clock);
    co_await pause(wait.time);
  }
}

/// The toll of one object.
Task<Status> Giving::pay(std::uint64_t bytes, RebuildWatch::Making& making) {
  CO_TRY_OK(co_await wait_turn(bytes));
  making.pass(bytes);
  co_return Status();
}

Result<Receiver> Giving::receiver(const std::string& id) const {
  const cluster::Node* loser = state_->map.find(id);
  if (loser == nullptr) return fail(Errc::unavailable, "target t[{}] is not in the map", id);
  return Receiver{*loser, state_->map.version, state_->bmd.version};
}

void Giving::note_failure(const std::string& id, const Error& error) {
  all_ = false;
  error_ = fmt::format("for t[{}]: {}", id, error.message);
}

Task<Status> Giving::send(const Wanted& wanted, RebuildWatch::Making& making) {
  CO_TRY(const Receiver to, receiver(wanted.id));
  const ObjectName name = name_in(*wanted.bucket, wanted.object);
  CO_TRY_OK(co_await resolve_copies(node_, name));
  if (!has_full_view(node_, name))
    co_return fail(Errc::unavailable, "a drive here that is away may have something newer of {}",
                   name.object);
  CO_TRY(const auto outgoing, co_await open_outgoing(node_, name, *wanted.bucket));
  if (!outgoing) co_return Status();
  CO_FAIL_POINT("copies.before_give");
  const Toll toll = [this, &making](std::uint64_t bytes) { return pay(bytes, making); };
  CO_TRY(const bool stored, co_await send_copy(node_, to, outgoing->attribute,
                                               outgoing->object.get(), {.toll = toll}));
  if (stored) ++given_[wanted.id];
  co_return Status();
}

/// Notes in `making` why a target did not get its copy.
void note_unsent(const std::string& id, const Error& error, RebuildWatch::Making& making) {
  if (error.code == Errc::no_space)
    making.note({WaitReason::Why::no_room, id});
  else
    making.note_failed(error.message, id);
}

/// cancelled ends the look; other errors are noted.
Task<Status> Giving::give(const Wanted& wanted) {
  RebuildWatch::Making making(node_.given_copies, node_.clock, wanted.bucket->id, wanted.missing,
                              wanted.bytes);
  if (const auto refused = refused_.find(wanted.id); refused != refused_.end()) {
    note_unsent(wanted.id, refused->second, making);
    co_return Status();
  }
  const Status sent = co_await send(wanted, making);
  if (!sent && sent.error().code == Errc::cancelled) co_return sent;
  if (!sent) note_unsent(wanted.id, sent.error(), making);
  making.end(sent.has_value());
  std::size_t& failures = failures_[wanted.id];
  failures = sent ? 0 : failures + 1;
  if (sent) co_return Status();
  note_failure(wanted.id, sent.error());
  // After a failure the target may take other names; when it takes none, it has no room or no drive
  // for them.
  if (failures < kLostRecordsFailuresMost) co_return Status();
  if (refused_.emplace(wanted.id, sent.error()).second)
    obs::log("repair").info("lost records not given target={} err={}", wanted.id,
                            sent.error().message);
  co_return Status();
}

/// cancelled by another map, or by an operator.
Task<Status> Giving::give_next() {
  TARN_CHECK(!wanted_.empty());
  const auto first = wanted_.begin();
  const Wanted wanted = std::move(first->second.front());
  first->second.pop_front();
  if (first->second.empty()) wanted_.erase(first);
  co_return co_await give(wanted);
}

void Giving::queue(std::vector<Wanted> wanted) {
  std::map<std::string, std::size_t> lacking;
  for (const Wanted& each : wanted) ++lacking[each.object];
  for (Wanted& each : wanted) {
    each.missing = lacking[each.object];
    ++todo_.objects[each.missing];
    ++todo_.buckets[each.bucket->id];
    todo_.bytes += each.bytes;
    if (remembered_ < kLostRecordsWantedMost) {
      ++remembered_;
      wanted_[each.missing].push_back(std::move(each));
    } else {
      all_ = false;  // the next look has the rest of them
    }
  }
}

/// Asks each target of a page which names it lacks.
Task<Status> Giving::offer(const cluster::BucketRecord& bucket, std::vector<Offered> page) {
  std::map<std::string, std::vector<Offered>> by_target;
  for (Offered& each : page) {
    auto& offered = by_target[each.id];
    offered.push_back(std::move(each));
  }
  std::vector<Wanted> wanted;
  for (auto& [id, offered] : by_target) {
    if (refused_.contains(id)) continue;
    const auto to = receiver(id);
    if (!to) continue;
    Offer offer{bucket.id, to->bmd_version, to->map_version, {}};
    for (const Offered& each : offered) offer.names.push_back(each.name);
    const auto lacks = co_await offer_names(node_, *to, offer);
    if (!lacks) {
      note_failure(id, lacks.error());
      refused_.emplace(id, lacks.error());
      todo_.waits[bucket.id].add_failed(id, lacks.error().message, 0);
      obs::log("repair").info("lost records not offered target={} err={}", id,
                              lacks.error().message);
      continue;
    }
    for (const std::size_t each : *lacks)
      wanted.push_back({&bucket, id, std::move(offered[each].name.name), offered[each].bytes});
  }
  queue(std::move(wanted));
  co_return Status();
}

Task<Status> Giving::walk(std::shared_ptr<Drive> drive, const cluster::BucketRecord& bucket) {
  const auto take = [&](std::string_view object, const io::ObjectRecord& record, auto& to) {
    add_offers(bucket, object, record, to);
  };
  RecordPages<Offered> pages(*drive, bucket.id, take, kLostRecordsPage);
  while (pages.more()) {
    CO_TRY_OK(co_await wait_turn(0));
    CO_TRY(auto page, co_await pages.next());
    CO_TRY_OK(co_await offer(bucket, std::move(page)));
  }
  co_return Status();
}

Task<void> Giving::look_through() {
  for (const auto& [id, bucket] : state_->bmd.buckets) {
    // On several drives of each replica they are made again there (Mirror).
    if (bucket.replica_count().at(state_->map.version) < 2 || api::copies_of(bucket.props) > 0)
      continue;
    std::vector<Task<Status>> walks;
    for (const auto& drive : node_.store.drives())
      if (drive->in_service()) walks.push_back(walk(drive, bucket));
    for (const Status& walked : co_await gather(std::move(walks))) {
      if (walked) continue;
      all_ = false;
      error_ = walked.error().message;
    }
  }
}

/// Asks targets that got something to look for what is missing of it.
Task<void> Giving::ask_to_look() {
  for (const auto& [id, count] : given_) {
    obs::log("repair").info("lost records given target={} count={}", id, count);
    auto request = signed_call(node_, http::Method::post, "/v1/internal/rebuild?unless=stopped");
    const auto answer = co_await ask_target(node_, id, std::move(request), kLostRecordsAskLimits);
    if (!answer || answer->status != 200)
      obs::log("repair").warn("not asked to look for what is missing target={}", id);
  }
}

Task<bool> Giving::run() {
  node_.given_copies.look_begins(state_->map.version);
  co_await look_through();
  node_.given_copies.found(todo_, node_.clock);
  const auto give_one = [this](std::size_t /*i*/) { return give_next(); };
  const Status ended = co_await gather_at_most(kLostRecordsWorkers, remembered_, give_one);
  if (!ended) {
    all_ = false;
    error_ = ended.error().message;
  }
  node_.given_copies.look_ends(all_, error_, node_.clock);
  co_await ask_to_look();
  co_return all_;
}

/// Every drive that was away is back, or given up.
void nothing_to_give(TargetNode& node, std::uint64_t map_version) {
  node.given_copies.look_begins(map_version);
  node.given_copies.found({}, node.clock);
  node.given_copies.look_ends(true, "", node.clock);
}

}  // namespace

Task<void> give_lost_records(TargetNode& node) {
  GivenBy done;
  auto due = SteadyClock::time_point::max();
  std::chrono::seconds again = kLostRecordsAgainFirst;
  while (true) {
    co_await pause_until(next_tick(kLostRecordsLookEvery));
    const auto state = node.owned.state();
    const GivenBy now = lost_records_present(node, *state);
    const bool is_asked = node.given_copies.is_asked();
    if (now.losers.empty()) {
      if (is_asked || !done.losers.empty()) nothing_to_give(node, now.map_version);
      done = {};
      continue;
    }
    if (now == done && !is_asked && SteadyClock::now() < due) continue;
    if (!node.membership.lease().valid() || state->settled < now.map_version) continue;
    if (node.rebuild.is_stopped() || node.view.state()->map.version != now.map_version) continue;
    if (now != done) again = kLostRecordsAgainFirst;
    done = now;
    Giving giving(node, done);
    const auto begun = SteadyClock::now();
    const bool all = co_await giving.run();
    const auto then = SteadyClock::now();
    if (giving.gave_some()) again = kLostRecordsAgainFirst;
    // A tenth of the time at most goes into looks of which nothing comes.
    const auto rest = giving.gave_some() ? 0s : kLostRecordsRestFactor * (then - begun);
    due =
        all ? SteadyClock::time_point::max() : then + std::max<SteadyClock::duration>(again, rest);
    again = std::min(again * 2, kLostRecordsAgainMost);
  }
}

}  // namespace tarn::target
