#include "common/cluster/state/cluster_view.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <variant>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "common/base/backoff.h"
#include "common/base/encoding.h"
#include "common/base/gather.h"
#include "common/base/mutex.h"
#include "common/base/resume.h"
#include "common/base/snapshot.h"
#include "common/cluster/state/rhythm.h"
#include "common/cluster/state/state_builder.h"
#include "common/cluster/store/keys.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kBackOffMin{50};
constexpr std::chrono::milliseconds kBackOffMax{2'000};

RangeRequest everything() {
  return {std::string(keys::kAll), prefix_end(std::string(keys::kAll)), 0};
}

Error went_back(Revision now, Revision before) {
  return {
      Errc::unavailable,
      fmt::format("the meta store is at revision {} and was at {}: it has lost data, or was put "
                  "back to an older state (tarn cluster recover)",
                  now, before)};
}

/// Checks that `next` may follow `known`.
Status check_successor(const ClusterState& known, const ClusterState& next) {
  if (known.uuid.empty()) return {};
  if (next.uuid != known.uuid)
    return fail(Errc::unavailable, "the meta store holds cluster {} now, this is a node of {}",
                next.uuid, known.uuid);
  if (next.map.version < known.map.version || next.bmd.version < known.bmd.version)
    return fail(
        Errc::unavailable,
        "the meta store has map version {} and bucket metadata {} now, and had {} and {}: it "
        "was put back to an older state (tarn cluster recover)",
        next.map.version, next.bmd.version, known.map.version, known.bmd.version);
  return {};
}

/// True if the store's versions, asked for when we were at `asked`, are those of `known`. False
/// when all must be read to know.
bool has_newest(const ClusterState& known, const RangeResult& versions, Revision asked) {
  StateBuilder at;
  at.reset(versions);
  if (at.ordinal() < asked) return false;
  bool has_map = false;
  for (const KeyValue& item : versions.items) {
    const auto version = parse_u64(item.value);
    if (item.key == keys::kMapVersion) has_map = version && *version <= known.map.version;
    if (item.key == keys::kConfigVersion && !(version && *version <= known.config.version))
      return false;
    if (item.key == keys::kBmdVersion && !(version && *version <= known.bmd.version)) return false;
  }
  return has_map;
}

}  // namespace

struct ClusterView::Impl {
  Impl(MetaStore& s, Clock& c, std::chrono::milliseconds poll)
      : store(s), clock(c), poll_every(poll), contact(c.boot_time().count()) {}

  Task<Status> load();
  Task<Status> follow_once();
  Task<Status> watch(Revision from);
  Task<Status> poll();
  /// Revision of our knowledge: no read that is sent from now on may bring less.
  Revision ordinal();
  /// Takes keys that were read or watched; `asked` was our ordinal() when we asked.
  Status install(const RangeResult& all, Revision asked);
  Status install(const WatchBatch& batch);
  Status publish() TARN_REQUIRES(mutex);
  /// The store has just answered.
  void touch() { contact = clock.boot_time().count(); }
  void notify();

  MetaStore& store;
  Clock& clock;
  const std::chrono::milliseconds poll_every;
  std::atomic<std::int64_t> contact;
  Snapshot<ClusterState> state;
  using Listener = std::function<void(const ClusterState&, const ClusterState&)>;
  Mutex listeners_mutex;  // listeners may come while the follower runs
  std::vector<Listener> listeners TARN_GUARDED_BY(listeners_mutex);
  Event changed;
  std::shared_ptr<const ClusterState> notified = state.get();  // the follower's

  Mutex mutex;  // held also while `state` is set, so that newer ones come later
  StateBuilder builder TARN_GUARDED_BY(mutex);
};

Status ClusterView::Impl::publish() {
  TRY(auto next, builder.build());
  if (next->revision > state.get()->revision) state.set(std::move(next));
  return {};
}

Revision ClusterView::Impl::ordinal() {
  const MutexLock lock(mutex);
  return builder.ordinal();
}

/// A store that has lost its data, or was put back to an older state, is refused: no answer of it
/// is acted on, and it counts as out of reach.
Status ClusterView::Impl::install(const RangeResult& all, Revision asked) {
  const MutexLock lock(mutex);
  StateBuilder read;
  read.reset(all);
  if (read.ordinal() < asked) return fail(went_back(read.ordinal(), asked));
  if (read.ordinal() > builder.ordinal()) {
    TRY(const auto next, read.build());
    TRY_OK(check_successor(*state.get(), *next));
    builder = std::move(read);
    TRY_OK(publish());
  }
  touch();
  return {};
}

Status ClusterView::Impl::install(const WatchBatch& batch) {
  const MutexLock lock(mutex);
  // A range on another loop may have been faster: its result holds these events already.
  if (batch.revision <= builder.revision()) return {};
  builder.apply(batch);
  return publish();
}

void ClusterView::Impl::notify() {
  auto now = state.get();
  if (now == notified) return;
  const auto before = std::exchange(notified, now);
  std::vector<Listener> all;
  {
    const MutexLock lock(listeners_mutex);
    all = listeners;
  }
  for (const auto& listener : all) listener(*before, *now);
  changed.ring();
}

Task<Status> ClusterView::Impl::load() {
  const Revision asked = ordinal();
  CO_TRY(const auto all, co_await store.range(everything()));
  co_return install(all, asked);
}

/// Ends with the watch. Cancellation is a value here and in poll(): of two that throw, Asio's ||
/// makes an exception that no caller would take for a cancellation.
Task<Status> ClusterView::Impl::watch(Revision from) {
  co_await asio::this_coro::throw_if_cancelled(false);
  Status broken;
  const auto sink = [this, &broken](const WatchBatch& batch) {
    broken = install(batch);
    if (broken) notify();
    return broken.has_value();
  };
  CO_TRY_OK(co_await store.watch(std::string(keys::kAll), from, sink));
  co_return broken;
}

/// Ends when the store cannot be read.
Task<Status> ClusterView::Impl::poll() {
  co_await asio::this_coro::throw_if_cancelled(false);
  asio::steady_timer timer(co_await asio::this_coro::executor, poll_every);
  for (int polls = 1;; ++polls) {
    const auto [error] = co_await timer.async_wait(kTuple);
    if (error || co_await is_cancelled())
      co_return fail(Errc::cancelled, "the follower was cancelled");
    timer.expires_at(
        next_tick(poll_every));  // from here on: slow answers are not asked for less often
    const Revision asked = ordinal();
    RangeRequest versions{std::string(keys::kVersions), prefix_end(std::string(keys::kVersions)),
                          0};
    CO_TRY(const auto newest, co_await store.range(std::move(versions)));
    if (polls % kPollsPerReload != 0 && has_newest(*state.get(), newest, asked)) {
      touch();
    } else {
      CO_TRY_OK(co_await load());
    }
    notify();
  }
}

Task<Status> ClusterView::Impl::follow_once() {
  CO_TRY_OK(co_await load());
  notify();
  Revision from = 0;
  {
    const MutexLock lock(mutex);
    from = builder.revision() + 1;
  }
  // A cancellation that came before the two are joined would reach neither of them.
  if (co_await is_cancelled()) co_return fail(Errc::cancelled, "the follower was cancelled");
  auto ended = co_await first_of(watch(from), poll());
  co_return std::visit([](auto& status) -> Status { return std::move(status); }, ended);
}

ClusterView::ClusterView(MetaStore& store, Clock& clock, std::chrono::milliseconds poll_every)
    : impl_(std::make_shared<Impl>(store, clock, poll_every)) {}

ClusterView::~ClusterView() = default;

Task<Status> ClusterView::load() { return impl_->load(); }

Task<void> ClusterView::follow() {
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto impl = impl_;
  asio::steady_timer timer(co_await asio::this_coro::executor);
  // Nodes that lost the store together shall not come back together.
  Backoff backoff(kBackOffMin, kBackOffMax);
  bool away = false;
  for (;;) {
    const auto begun = impl->clock.boot_time();
    const auto ended = co_await impl->follow_once();
    if (co_await is_cancelled()) co_return;
    const bool was_up = impl->clock.boot_time() - begun > kBackOffMax;
    if (was_up) backoff.reset();
    const bool resync = !ended && ended.error().code == Errc::conflict;
    if (!ended && !resync && (was_up || !away))
      obs::log("cluster").warn("meta store lost err={}", ended.error().message);
    away = !resync;
    timer.expires_after(backoff.next());
    if (const auto [error] = co_await timer.async_wait(kTuple); error) co_return;
  }
}

std::shared_ptr<const ClusterState> ClusterView::state() const { return impl_->state.get(); }

Task<Result<std::shared_ptr<const ClusterState>>> ClusterView::at_least(std::uint64_t map_version,
                                                                        std::uint64_t bmd_version) {
  const auto impl = impl_;
  auto known = impl->state.get();
  if (known->map.version >= map_version && known->bmd.version >= bmd_version) co_return known;
  CO_TRY_OK(co_await impl->load());
  known = impl->state.get();
  if (known->map.version < map_version || known->bmd.version < bmd_version)
    co_return fail(Errc::unavailable,
                   "want map version {} and bucket metadata {}, the meta store has {} and {}",
                   map_version, bmd_version, known->map.version, known->bmd.version);
  co_return known;
}

Task<Result<std::shared_ptr<const ClusterState>>> ClusterView::fresh() {
  const auto impl = impl_;
  CO_TRY_OK(co_await impl->load());
  co_return impl->state.get();
}

BootTime ClusterView::last_contact() const { return BootTime(impl_->contact.load()); }

Event& ClusterView::changed() const { return impl_->changed; }

void ClusterView::on_change(
    std::function<void(const ClusterState&, const ClusterState&)> listener) {
  const MutexLock lock(impl_->listeners_mutex);
  impl_->listeners.push_back(std::move(listener));
}

}  // namespace tarn::cluster
