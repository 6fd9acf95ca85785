#include "common/cluster/membership.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "common/base/random.h"
#include "common/base/resume.h"
#include "common/cluster/hrw.h"
#include "common/cluster/keys.h"
#include "common/cluster/state_builder.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

constexpr auto kRenewEvery = 1s;
constexpr auto kRenewAgain = 200ms;  // behind a renewal that failed
/// Between looks at versions that the view has and the node has not put in force yet.
constexpr auto kAcknowledgeSoon = 20ms;
constexpr auto kLeaveMax = 2s;
constexpr auto kComeBackMax = 10s;
constexpr int kTransactionsMax = 50;

/// Up to `most`, at random: those who lost the same race shall not run the next one together.
Task<void> pause(std::chrono::milliseconds most) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(
      std::chrono::milliseconds(random_u64() % static_cast<std::uint64_t>(most.count()) + 1));
  (void)co_await timer.async_wait(kTuple);
}

bool is_final(Errc code) {
  return code == Errc::unsupported || code == Errc::unauthenticated || code == Errc::forbidden ||
         code == Errc::corrupt || code == Errc::invalid_argument;
}

Result<Smap> read_map(const KeyValue& item) {
  try {
    return nlohmann::json::parse(item.value).get<Smap>();
  } catch (const std::exception& problem) {
    return fail(Errc::corrupt, "the cluster map in the meta store: {}", problem.what());
  }
}

}  // namespace

std::int64_t LeaseClock::stale_seconds() const {
  const BootTime over(clock_.boot_time().count() - valid_until_.load());
  if (over < BootTime(0)) return 0;
  return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(over).count());
}

bool admit(Smap& map, const Node& node) {
  const Ownership before = ownership_of(map);
  Node wanted = node;
  wanted.digest = placement_digest(node.id);
  const auto found = map.nodes.find(node.id);
  bool changed = found == map.nodes.end();
  if (!changed) {
    const Node& have = found->second;
    wanted.flags = have.flags & ~(kDown | kOut);
    wanted.weight = have.weight;
    wanted.drives = have.drives;
    // That it is another one is the coordinator's to publish, with what follows from it.
    if (have.drive_set != 0) wanted.drive_set = have.drive_set;
    changed = have.drive_set != wanted.drive_set || have.flags != wanted.flags ||
              have.role != wanted.role || have.public_url != wanted.public_url ||
              have.relay_url != wanted.relay_url || have.internal_url != wanted.internal_url;
  }
  // A target that joins moves names, whatever was said before.
  if (found == map.nodes.end() && node.role == Role::target) map.rebalance = {};
  map.nodes[node.id] = std::move(wanted);
  const Node* primary = map.find(map.primary);
  if (node.role == Role::proxy && (primary == nullptr || primary->role != Role::proxy)) {
    map.primary = node.id;
    changed = true;
  }
  if (changed) take_ownership(map, with_members(before, ownership_of(map).members));
  return changed;
}

struct Membership::Impl : std::enable_shared_from_this<Membership::Impl> {
  Impl(Membership& owner, MetaStore& s, ClusterView& v, Clock& c)
      : membership(owner), store(s), view(v), clock(c) {}

  Task<Status> register_node(bool first);
  Task<Status> learn_lease();
  Task<Status> check_may_join();
  Task<Result<Revision>> read_base();
  Task<Result<TransactionResult>> try_register(LeaseId new_lease, LiveRecord record);
  Task<void> renew_loop();
  Task<bool> renew();
  Task<bool> stay_outside();
  void note_flags() const;
  Task<void> acknowledge_loop();
  Task<void> acknowledge();
  Task<Status> read_live();
  [[nodiscard]] LiveRecord acknowledged() const;
  void view_changed();

  Membership& membership;  // which joins, keeps and leaves while it lives
  MetaStore& store;
  ClusterView& view;
  Clock& clock;
  std::function<LiveRecord()> word;
  std::function<Task<Result<bool>>()> is_empty;

  // Of the loop that join(), keep() and leave() run on.
  std::atomic<LeaseId> lease{0};                  // 0: none; read by others
  mutable std::atomic<std::uint64_t> leaving{0};  // our flags, since we are to leave; 0: we are not
  std::atomic<bool> outside{false};               // dismissed, and without a lease
  std::atomic<bool> returning{false};             // come_back() waits
  Revision base = 0;                              // of the store's revisions
  Revision registered = 0;                        // as ClusterState counts: when `lease` was taken
  BootTime asked_for_lease{};                     // when `lease` was asked for
  bool counts = false;                            // the view has the revision `registered`
  Revision live_revision = 0;                     // of live/<id>; 0: read it before the next write
  LiveRecord written;
  bool warned = false;

  std::mutex mutex;  // guards what follows; the timer's use is the loop's alone
  Error refusal;     // of come_back()
  std::shared_ptr<asio::steady_timer> acknowledge_timer;
};

LiveRecord Membership::Impl::acknowledged() const {
  LiveRecord record;
  if (word) {
    record = word();
  } else {
    const auto state = view.state();
    record.map_version = state->map.version;
    record.bmd_version = state->bmd.version;
  }
  record.role = membership.self_.role;
  note_flags();
  return record;
}

/// Behind the making of each record, before it is written: nobody takes us out of the map before we
/// have acknowledged the one that says that we are to leave, so it is seen here.
void Membership::Impl::note_flags() const {
  const auto state = view.state();
  const Node* self = state->map.find(membership.self_.id);
  if (self != nullptr) leaving = (self->flags & kDecommission) != 0 ? self->flags : 0;
}

/// A target that is not in the map was taken out, or is new. What it holds may have been deleted
/// and forgotten since.
Task<Status> Membership::Impl::check_may_join() {
  if (!is_empty) co_return Status();
  CO_TRY(const bool empty, co_await is_empty());
  if (!empty)
    co_return fail(
        Errc::unsupported,
        "target {} holds objects and is not in the cluster map: it was away for too long "
        "or taken out, and what it holds may be out of date. Start it with empty drives: other "
        "directories, or these when all that is in them has been removed, .tarn as well",
        membership.self_.id);
  co_return Status();
}

/// One attempt: reads map and live/<id> and writes them if nobody was faster. The latter is
/// compared so that an attempt that comes late does not take back what was said since.
Task<Result<TransactionResult>> Membership::Impl::try_register(LeaseId new_lease,
                                                               LiveRecord record) {
  RangeRequest map_key{std::string(keys::kMap), "", 0};
  CO_TRY(const auto found, co_await store.range(std::move(map_key)));
  if (found.items.empty())
    co_return fail(Errc::not_found, "there is no cluster in the meta store yet");
  CO_TRY(auto map, read_map(found.items.front()));
  const auto known = view.state();
  if (!known->uuid.empty() && (map.uuid != known->uuid || map.version < known->map.version))
    co_return fail(Errc::unavailable,
                   "the meta store holds map version {} of cluster {}, this node knows {} of {}",
                   map.version, map.uuid, known->map.version, known->uuid);
  Transaction transaction;
  transaction.compare.push_back(
      {std::string(keys::kMap), Compare::What::mod_revision, found.items.front().mod_revision});
  const std::string live_key = keys::live(membership.self_.id);
  RangeRequest live_range{live_key, "", 0};
  CO_TRY(const auto live, co_await store.range(std::move(live_range)));
  const Revision said = live.items.empty() ? 0 : live.items.front().mod_revision;
  transaction.compare.push_back({live_key, Compare::What::mod_revision, said});
  const bool is_new = map.find(membership.self_.id) == nullptr;
  if (is_new && membership.self_.role == Role::target) CO_TRY_OK(co_await check_may_join());
  if (admit(map, membership.self_)) {
    transaction.puts.push_back({std::string(keys::kMap), nlohmann::json(map).dump(), 0});
    transaction.puts.push_back({std::string(keys::kMapVersion), std::to_string(map.version), 0});
  }
  transaction.puts.push_back({live_key, encode(record), new_lease});
  co_return co_await store.commit(std::move(transaction));
}

/// What the stores that the cluster had before have used up of revisions. Never changes in a store.
Task<Result<Revision>> Membership::Impl::read_base() {
  RangeRequest base_key{std::string(keys::kRevisionBase), "", 0};
  CO_TRY(const auto found, co_await store.range(std::move(base_key)));
  if (found.items.empty()) co_return Revision{0};
  CO_TRY(const auto number, decode_number(keys::kRevisionBase, found.items.front().value));
  co_return static_cast<Revision>(number);
}

/// Takes a lease and registers under it. An attempt whose outcome is unknown is simply made again,
/// from a new look at the map: it would have written what the next one writes, at a lower revision.
/// The lease counts only behind learn_lease().
Task<Status> Membership::Impl::register_node(bool first) {
  const BootTime sent = clock.boot_time();
  if (first) {
    CO_TRY(base, co_await read_base());
  }
  CO_TRY(const LeaseId granted, co_await store.grant(LeaseClock::kTerm));
  for (int i = 0; i < kTransactionsMax; ++i) {
    const LiveRecord record = acknowledged();
    CO_TRY(const auto done, co_await try_register(granted, record));
    if (done.succeeded) {
      lease = granted;
      live_revision = done.revision;
      written = record;
      counts = false;
      asked_for_lease = sent;
      registered = base + done.revision;
      if (first) membership.incarnation_ = static_cast<std::uint64_t>(registered);
      co_return Status();
    }
    co_await pause(20ms);
  }
  co_return fail(Errc::unavailable, "the cluster map changed {} times while node {} joined",
                 kTransactionsMax, membership.self_.id);
}

/// Names may have got other owners while this node had no lease.
Task<Status> Membership::Impl::learn_lease() {
  if (counts) co_return Status();
  CO_TRY_OK(co_await view.load());
  if (view.state()->revision < registered)
    co_return fail(Errc::unavailable, "the meta store answers with what it held before");
  counts = true;
  membership.lease_revision_ = registered;
  membership.lease_.renewed(asked_for_lease);
  co_return Status();
}

Task<void> Membership::Impl::renew_loop() {
  co_await asio::this_coro::throw_if_cancelled(false);
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (!co_await is_cancelled()) {
    const auto begun = std::chrono::steady_clock::now();
    const bool renewed = co_await renew();
    const bool ends = co_await is_cancelled();  // a wait that begins now would not hear of it
    if (ends) break;
    if (renewed) {
      timer.expires_at(begun + kRenewEvery);
    } else {
      timer.expires_after(kRenewAgain);
    }
    (void)co_await timer.async_wait(kTuple);
  }
}

/// Of a node that was dismissed: it gives its lease back. True when there is nothing else to do.
Task<bool> Membership::Impl::stay_outside() {
  if (const LeaseId held = lease.exchange(0); held != 0) {
    membership.lease_.lost();
    counts = false;
    obs::log("cluster").warn("taken out of the cluster node={}", membership.self_.id);
    // Best effort: it ends by itself.
    static_cast<void>(co_await store.revoke(held));
  }
  outside = true;
  // Looked at behind that: come_back() on another thread says the one and takes back the other.
  if (returning) outside = false;
  co_return outside;
}

/// False when it should be tried again soon.
Task<bool> Membership::Impl::renew() {
  const std::string& id = membership.self_.id;
  if (membership.dismissed()) {
    const bool is_out = co_await stay_outside();
    if (is_out) co_return true;
  }
  const BootTime sent = clock.boot_time();
  if (sent - view.last_contact() > LeaseClock::kTerm) {
    if (!std::exchange(warned, true))
      obs::log("cluster").warn("lease not renewed node={} err=the cluster map cannot be read", id);
    co_return false;
  }
  Status done;
  if (lease != 0) {
    const auto kept = co_await store.keep_alive(lease);
    const Status learnt = kept ? co_await learn_lease() : Status();
    if (kept && learnt) {
      membership.lease_.renewed(sent);
      if (std::exchange(warned, false)) obs::log("cluster").info("lease renewed again node={}", id);
      co_return true;
    }
    done = kept ? learnt : fail(kept.error());
    if (!kept && kept.error().code == Errc::not_found) {
      obs::log("cluster").warn("lease gone node={} lease={}", id, lease);
      membership.lease_.lost();
      lease = 0;
    }
  }
  if (lease == 0) {
    done = co_await register_node(false);
    if (done) done = co_await learn_lease();
    if (done) {
      warned = false;
      obs::log("cluster").info("lease taken anew node={} lease={}", id, lease);
      co_return true;
    }
  }
  if (returning && is_final(done.error().code)) {
    const std::lock_guard lock(mutex);
    refusal = done.error();
    returning = false;
  }
  if (!std::exchange(warned, true))
    obs::log("cluster").warn("lease not renewed node={} err={}", id, done.error().message);
  co_return false;
}

void Membership::Impl::view_changed() {
  const std::lock_guard lock(mutex);
  if (!acknowledge_timer) return;
  asio::post(acknowledge_timer->get_executor(), [timer = acknowledge_timer] { timer->cancel(); });
}

Task<void> Membership::Impl::acknowledge_loop() {
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto timer = std::make_shared<asio::steady_timer>(co_await asio::this_coro::executor);
  {
    const std::lock_guard lock(mutex);
    acknowledge_timer = timer;
  }
  while (!co_await is_cancelled()) {
    co_await acknowledge();
    const bool ends = co_await is_cancelled();
    if (ends) break;
    const auto state = view.state();
    const bool behind = lease != 0 && (written.map_version < state->map.version ||
                                       written.bmd_version < state->bmd.version);
    timer->expires_after(behind ? std::chrono::milliseconds(kAcknowledgeSoon) : kRenewEvery);
    (void)co_await timer->async_wait(kTuple);  // ended early by view_changed()
  }
  const std::lock_guard lock(mutex);
  acknowledge_timer.reset();
}

/// Writes what is in force now into live/<id>, if that is news. What fails is tried again.
Task<void> Membership::Impl::acknowledge() {
  const LiveRecord record = acknowledged();
  // Without a lease the renewal registers anew, with the versions of then.
  if (record == written || lease == 0) co_return;
  if (live_revision == 0) {
    const auto read = co_await read_live();
    if (!read) co_return;
  }
  const LeaseId under = lease;
  if (under == 0) co_return;
  const std::string key = keys::live(membership.self_.id);
  Transaction transaction;
  transaction.compare.push_back({key, Compare::What::mod_revision, live_revision});
  transaction.puts.push_back({key, encode(record), under});
  const auto done = co_await store.commit(std::move(transaction));
  if (done && done->succeeded) {
    live_revision = done->revision;
    written = record;
  } else if (under == lease) {
    live_revision = 0;
  }
}

Task<Status> Membership::Impl::read_live() {
  RangeRequest live_key{keys::live(membership.self_.id), "", 0};
  CO_TRY(const auto found, co_await store.range(std::move(live_key)));
  if (found.items.empty() || found.items.front().lease != lease)
    co_return fail(Errc::conflict, "node {} is not registered under its lease",
                   membership.self_.id);
  CO_TRY(const auto record, decode_live(found.items.front()));
  live_revision = found.items.front().mod_revision;
  written = record;
  co_return Status();
}

Membership::Membership(MetaStore& store, ClusterView& view, Node self, Clock& clock)
    : impl_(std::make_shared<Impl>(*this, store, view, clock)),
      self_(std::move(self)),
      lease_(clock) {
  view.on_change([weak = std::weak_ptr(impl_)](const ClusterState&, const ClusterState&) {
    if (const auto impl = weak.lock()) impl->view_changed();
  });
}

Membership::~Membership() = default;

void Membership::acknowledge_with(std::function<LiveRecord()> word) {
  impl_->word = std::move(word);
}

void Membership::word_changed() { impl_->view_changed(); }

void Membership::empty_if(std::function<Task<Result<bool>>()> is_empty) {
  impl_->is_empty = std::move(is_empty);
}

/// A lease that came in between two of these looks has another revision.
std::int64_t Membership::lease_now() const {
  while (true) {
    const std::int64_t revision = lease_revision_;
    if (!lease_.valid()) return 0;
    if (lease_revision_ == revision) return revision;
  }
}

LeaseId Membership::lease_id() const { return impl_->lease; }

std::optional<std::uint64_t> Membership::dismissed() const {
  const std::uint64_t flags = impl_->leaving;
  if (flags == 0 || impl_->view.state()->map.find(self_.id) != nullptr) return std::nullopt;
  return flags;
}

bool Membership::is_outside() const { return impl_->outside; }

Task<Status> Membership::come_back() {
  const auto impl = impl_;
  if (!dismissed()) co_return fail(Errc::conflict, "node {} is in the cluster", self_.id);
  impl->returning = true;
  impl->outside = false;
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (const auto until = std::chrono::steady_clock::now() + kComeBackMax;
       std::chrono::steady_clock::now() < until;) {
    if (!dismissed() && lease_.valid()) {
      impl->returning = false;
      co_return Status();
    }
    if (!impl->returning) {
      const std::lock_guard lock(impl->mutex);
      co_return fail(impl->refusal);
    }
    timer.expires_after(20ms);
    (void)co_await timer.async_wait(kTuple);
  }
  impl->returning = false;
  co_return fail(Errc::unavailable, "node {} could not join within {} s: the meta store is away",
                 self_.id, kComeBackMax.count());
}

Task<Status> Membership::join() {
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto impl = impl_;
  bool registered = false;
  for (int attempt = 0;; ++attempt) {
    Status done;
    if (!registered) done = co_await impl->register_node(true);
    registered = done.has_value();
    if (registered) done = co_await impl->learn_lease();
    if (done) co_return done;
    if (is_final(done.error().code)) co_return done;
    if (co_await is_cancelled()) co_return fail(Errc::cancelled, "the start was cancelled");
    if (attempt == 0)
      obs::log("cluster").warn("waiting for the meta store node={} err={}", self_.id,
                               done.error().message);
    co_await pause(attempt < 10 ? 100ms : 1'000ms);
  }
}

Task<void> Membership::keep() {
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto impl = impl_;
  // A cancellation that came before the two are joined would reach neither of them.
  if (co_await is_cancelled()) co_return;
  co_await (impl->renew_loop() && impl->acknowledge_loop());
}

Task<void> Membership::leave() {
  const auto impl = impl_;
  lease_.lost();
  const LeaseId lease = impl->lease.exchange(0);
  if (lease == 0) co_return;
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(kLeaveMax);
  const auto ended = co_await (impl->store.revoke(lease) || timer.async_wait(kTuple));
  if (ended.index() != 0 || !std::get<0>(ended))
    obs::log("cluster").warn("lease not given back node={}", self_.id);
}

}  // namespace tarn::cluster
