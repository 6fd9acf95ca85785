#include "common/cluster/node/membership.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/mutex.h"
#include "common/base/pause.h"
#include "common/base/resume.h"
#include "common/cluster/node/node_entry.h"
#include "common/cluster/node/renewals.h"
#include "common/cluster/state/state_builder.h"
#include "common/cluster/store/keys.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kSayEvery{1'000};
/// Between looks at versions that the view has and the node has not put in force yet.
constexpr std::chrono::milliseconds kSaySoon{20};
constexpr auto kLeaveMax = 2s;
/// Added to two terms, for a store that ends leases late.
constexpr auto kRivalGrace = 2s;
constexpr auto kComeBackMax = 10s;

bool is_final(Errc code) {
  return code == Errc::unsupported || code == Errc::unauthenticated || code == Errc::forbidden ||
         code == Errc::corrupt || code == Errc::invalid_argument;
}

}  // namespace

std::int64_t LeaseClock::stale_seconds() const {
  const BootTime over(clock_.boot_time().count() - valid_until_.load());
  if (over < BootTime(0)) return 0;
  return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(over).count());
}

struct Membership::Impl : std::enable_shared_from_this<Membership::Impl> {
  Impl(Membership& owner, MetaStore& s, ClusterView& v, Clock& c)
      : membership(owner), store(s), view(v), clock(c), entry(s, v, owner.self_, c) {}

  Task<Status> first_lease();
  Task<Status> register_node();
  Task<Status> learn_lease();
  void count_from(BootTime sent);
  Task<Result<Revision>> read_base();
  Task<bool> renew();
  Task<Status> keep_lease(BootTime sent);
  Task<Status> take_lease();
  Task<bool> stay_outside();
  void note_flags() const;
  void note_failure(const Error& error);
  Task<void> say_loop();
  [[nodiscard]] LiveRecord acknowledged() const;
  void look_for_entry(const ClusterState& state);
  Task<void> give_up_lease();
  [[nodiscard]] bool is_refused(BootTime since) const;

  Membership& membership;  // alive while join(), keep() and leave() run
  MetaStore& store;
  ClusterView& view;
  Clock& clock;
  std::function<LiveRecord()> status;

  // Members for the loop that join(), keep() and leave() run on.
  NodeEntry entry;
  const std::string holder = encode(entry.holder());
  std::atomic<bool> unregistered{false};          // live/<id> is gone, or another process's
  mutable std::atomic<std::uint64_t> leaving{0};  // our flags, since we are to leave; 0: we are not
  std::atomic<bool> outside{false};               // dismissed, and without a lease
  std::atomic<bool> returning{false};             // come_back() waits
  Revision base = 0;                              // of the store's revisions
  LeaseId counts = 0;        // the lease of which the view has the revision at which it was taken
  bool registering = false;  // or revoking the lease: one renewal at a time does
  BootTime answered{};       // time at which the last answered renewal was sent
  std::set<Errc> warned;     // kinds of failure that the log has since the last renewal

  Mutex mutex;
  Error refusal TARN_GUARDED_BY(mutex);  // of come_back()
  Event news;                            // there is news to report
};

LiveRecord Membership::Impl::acknowledged() const {
  LiveRecord record;
  if (status) {
    record = status();
  } else {
    const auto state = view.state();
    record.map_version = state->map.version;
    record.bmd_version = state->bmd.version;
  }
  record.role = membership.self_.role;
  record.holder = holder;
  note_flags();
  return record;
}

/// Runs after each record is made and before it is written. The coordinator removes a node from the
/// map only after the node has acknowledged its flags, so they are seen here.
void Membership::Impl::note_flags() const {
  const auto state = view.state();
  const Node* self = state->map.find(membership.self_.id);
  if (self != nullptr) leaving = (self->flags & kDecommission) != 0 ? self->flags : 0;
}

/// Reads how many revisions the cluster's earlier stores have used up. Never changes in a store.
Task<Result<Revision>> Membership::Impl::read_base() {
  RangeRequest base_key{std::string(keys::kRevisionBase), "", 0};
  CO_TRY(const auto found, co_await store.range(std::move(base_key)));
  if (found.items.empty()) co_return Revision{0};
  CO_TRY(const auto number, decode_number(keys::kRevisionBase, found.items.front().value));
  co_return static_cast<Revision>(number);
}

/// The lease counts only after learn_lease().
Task<Status> Membership::Impl::register_node() {
  CO_TRY_OK(co_await entry.enter([this] { return acknowledged(); }));
  if (membership.incarnation_ == 0)
    membership.incarnation_ = static_cast<std::uint64_t>(base + entry.held().revision);
  co_return Status();
}

/// Names may have got other owners while this node had no lease.
Task<Status> Membership::Impl::learn_lease() {
  const NodeEntry::Held held = entry.held();
  if (counts == held.lease) co_return Status();
  CO_TRY_OK(co_await view.load());
  if (view.state()->revision < base + held.revision)
    co_return fail(Errc::unavailable, "the meta store answers with what it held before");
  if (entry.lease() != held.lease)
    co_return fail(Errc::unavailable, "lease {} ended before it counted", held.lease);
  if (counts == held.lease) co_return Status();  // another renewal has learnt it meanwhile
  counts = held.lease;
  membership.lease_revision_ = base + held.revision;
  count_from(held.asked);
  co_return Status();
}

/// Runs after each change of the view, on its thread. Drops the lease if live/<id> is not of this
/// process, even if the store still renews the lease.
void Membership::Impl::look_for_entry(const ClusterState& state) {
  if (!membership.lease_.valid() || state.revision < membership.lease_revision_) return;
  const auto found = state.holders.find(membership.self_.id);
  if (found != state.holders.end() && found->second == entry.holder().id) return;
  unregistered = true;
  membership.lease_.lost();
}

/// The store may have counted the term from the moment at which it was asked.
void Membership::Impl::count_from(BootTime sent) {
  answered = sent;
  membership.lease_.renewed(SAFETY("safety.lease_from_send") ? sent : clock.boot_time());
  if (unregistered) membership.lease_.lost();  // set meanwhile by another thread
}

/// Revokes the lease of a node that is no longer registered.
Task<void> Membership::Impl::give_up_lease() {
  unregistered = false;
  const LeaseId held = entry.let_go();
  if (held == 0) co_return;
  const auto state = view.state();
  obs::log("cluster").warn("lease gone node={} lease={} err=\"{}\"", membership.self_.id, held,
                           state->live.contains(membership.self_.id)
                               ? "the node is registered by another process"
                               : "the node is not registered");
  static_cast<void>(co_await store.revoke(held));  // best effort: it ends by itself
}

/// True if another process keeps this node's lease: it runs on this machine, or it has renewed the
/// lease since `since`.
bool Membership::Impl::is_refused(BootTime since) const {
  if (!entry.rival()) return false;
  if (entry.rival()->state == HolderState::runs) return true;
  return clock.boot_time() - since > 2 * membership.lease_.term().term + kRivalGrace;
}

/// Takes the steps that are left until the node has a lease that counts.
Task<Status> Membership::Impl::first_lease() {
  if (entry.lease() == 0) {
    CO_TRY(base, co_await read_base());
    CO_TRY_OK(co_await register_node());
  }
  co_return co_await learn_lease();
}

/// Step of a node that was dismissed: it revokes its lease. True when there is nothing else to do.
Task<bool> Membership::Impl::stay_outside() {
  if (const LeaseId held = entry.let_go(); held != 0) {
    membership.lease_.lost();
    obs::log("cluster").warn("taken out of the cluster node={}", membership.self_.id);
    // Best effort: it ends by itself.
    static_cast<void>(co_await store.revoke(held));
  }
  outside = true;
  // Read after `outside` is set: come_back() on another thread sets `returning`, then clears
  // `outside`.
  if (returning) outside = false;
  co_return outside;
}

/// False if it should be tried again soon. Several run at a time.
Task<bool> Membership::Impl::renew() {
  if (membership.dismissed()) {
    if (registering) co_return true;
    registering = true;
    const bool is_out = co_await stay_outside();
    registering = false;
    if (is_out) co_return true;
  }
  const BootTime sent = clock.boot_time();
  if (sent - view.last_contact() > membership.lease_.term().term) {
    note_failure({Errc::unavailable, "the cluster map cannot be read"});
    co_return false;
  }
  Status done;
  if (unregistered && !registering) {
    registering = true;
    co_await give_up_lease();
    registering = false;
  }
  if (entry.lease() != 0) done = co_await keep_lease(sent);
  if (entry.lease() == 0 && registering) {
    if (const LeaseId its = entry.entering(); its != 0)
      static_cast<void>(co_await store.keep_alive(its));  // or it would end before it counts
    co_return true;
  }
  if (entry.lease() == 0) done = co_await take_lease();
  if (done) {
    if (!warned.empty())
      obs::log("cluster").info("lease renewed again node={}", membership.self_.id);
    warned.clear();
    co_return true;
  }
  if (sent < answered) co_return true;  // later ones have overtaken it
  note_failure(done.error());
  co_return false;
}

/// An answer about a lease that is no longer ours does not concern the one that we have now.
Task<Status> Membership::Impl::keep_lease(BootTime sent) {
  const LeaseId its = entry.lease();
  const auto kept = co_await store.keep_alive(its);
  if (entry.lease() != its) co_return Status();
  if (!kept) {
    if (kept.error().code == Errc::not_found) {
      obs::log("cluster").warn("lease gone node={} lease={}", membership.self_.id, its);
      membership.lease_.lost();
      entry.let_go();
    }
    co_return fail(kept.error());
  }
  CO_TRY_OK(co_await learn_lease());
  // One that was sent later may have been answered before.
  if (entry.lease() == its && sent > answered) {
    if (sent - answered > membership.lease_.term().late_after())
      obs::log("cluster").warn(
          "lease renewed late node={} ms={}", membership.self_.id,
          std::chrono::duration_cast<std::chrono::milliseconds>(sent - answered).count());
    count_from(sent);
  }
  co_return Status();
}

Task<Status> Membership::Impl::take_lease() {
  registering = true;
  Status done = co_await register_node();
  if (done) done = co_await learn_lease();
  registering = false;
  if (done)
    obs::log("cluster").info("lease taken anew node={} lease={}", membership.self_.id,
                             entry.lease());
  co_return done;
}

void Membership::Impl::note_failure(const Error& error) {
  if (returning && is_final(error.code)) {
    const MutexLock lock(mutex);
    refusal = error;
    returning = false;
  }
  // Another process may have become this node while it was cut off.
  if (warned.insert(error.code).second)
    obs::log("cluster").warn("lease not renewed node={} err={}", membership.self_.id,
                             error.message);
}

/// Reports what is in force now. Tries again after a failure.
Task<void> Membership::Impl::say_loop() {
  co_await asio::this_coro::throw_if_cancelled(false);
  EventListener listener(news, co_await asio::this_coro::executor);
  while (!co_await is_cancelled()) {
    co_await entry.say(acknowledged());
    const bool ends = co_await is_cancelled();
    if (ends) break;
    const auto state = view.state();
    const bool behind = entry.lease() != 0 && (entry.said().map_version < state->map.version ||
                                               entry.said().bmd_version < state->bmd.version);
    co_await listener.wait_until(behind ? std::chrono::steady_clock::now() + kSaySoon
                                        : next_tick(kSayEvery));
  }
}

Membership::Membership(MetaStore& store, ClusterView& view, Node self, Clock& clock, LeaseTerm term)
    : impl_(std::make_shared<Impl>(*this, store, view, clock)),
      self_(std::move(self)),
      lease_(clock, term) {
  impl_->entry.lease_for(term);
  view.on_change([weak = std::weak_ptr(impl_)](const ClusterState&, const ClusterState& after) {
    const auto impl = weak.lock();
    if (!impl) return;
    impl->look_for_entry(after);
    impl->news.ring();
  });
}

Membership::~Membership() = default;

void Membership::acknowledge_with(std::function<LiveRecord()> status) {
  impl_->status = std::move(status);
}

void Membership::status_changed() { impl_->news.ring(); }

void Membership::empty_if(std::function<Task<Result<bool>>()> is_empty) {
  impl_->entry.empty_if(std::move(is_empty));
}

/// A lease that came in between two of these looks has another revision.
std::int64_t Membership::lease_now() const {
  while (true) {
    const std::int64_t revision = lease_revision_;
    if (!lease_.valid()) return 0;
    if (lease_revision_ == revision) return revision;
  }
}

LeaseId Membership::lease_id() const { return impl_->entry.lease(); }

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
  for (const auto until = std::chrono::steady_clock::now() + kComeBackMax;
       std::chrono::steady_clock::now() < until;) {
    if (!dismissed() && lease_.valid()) {
      impl->returning = false;
      co_return Status();
    }
    if (!impl->returning) {
      const MutexLock lock(impl->mutex);
      co_return fail(impl->refusal);
    }
    co_await pause(20ms);
  }
  impl->returning = false;
  co_return fail(Errc::unavailable, "node {} could not join within {} s: the meta store is away",
                 self_.id, kComeBackMax.count());
}

Task<Status> Membership::join() {
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto impl = impl_;
  const BootTime since = impl->clock.boot_time();
  for (int attempt = 0;; ++attempt) {
    Status done = co_await impl->first_lease();
    if (done) co_return done;
    if (is_final(done.error().code)) co_return done;
    if (done.error().code == Errc::conflict && impl->is_refused(since)) co_return done;
    if (co_await is_cancelled()) co_return fail(Errc::cancelled, "the start was cancelled");
    if (attempt == 0)
      obs::log("cluster").warn("waiting for the meta store node={} err={}", self_.id,
                               done.error().message);
    co_await pause_up_to(attempt < 10 ? 100ms : 1'000ms);
  }
}

Task<void> Membership::keep() {
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto impl = impl_;
  // A cancellation that came before the two are joined would reach neither of them.
  if (co_await is_cancelled()) co_return;
  const LeaseTerm term = lease_.term();
  auto renew = [&impl] { return impl->renew(); };
  std::vector<Task<void>> both;
  both.push_back(renew_at_intervals({term.renew_every(), term.retry_after()}, renew));
  both.push_back(impl->say_loop());
  co_await gather(std::move(both));
}

Task<void> Membership::leave() {
  const auto impl = impl_;
  lease_.lost();
  const LeaseId lease = impl->entry.let_go();
  if (lease == 0) co_return;
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(kLeaveMax);
  const auto ended = co_await first_of(impl->store.revoke(lease), timer.async_wait(kTuple));
  if (ended.index() != 0 || !std::get<0>(ended))
    obs::log("cluster").warn("lease not given back node={}", self_.id);
}

}  // namespace tarn::cluster
