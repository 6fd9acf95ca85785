#include "common/cluster/cluster_view.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/encoding.h"
#include "common/base/random.h"
#include "common/base/resume.h"
#include "common/base/snapshot.h"
#include "common/cluster/keys.h"
#include "common/cluster/state_builder.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

constexpr auto kPoll = 1s;
/// The set of live nodes has no version to ask for: now and then everything is read again.
constexpr int kPollsPerReload = 30;
constexpr std::chrono::milliseconds kBackOffMin{50};
constexpr std::chrono::milliseconds kBackOffMax{2'000};

RangeRequest everything() {
  return {std::string(keys::kAll), prefix_end(std::string(keys::kAll)), 0};
}

}  // namespace

struct ClusterView::Impl {
  Impl(MetaStore& s, Clock& c) : store(s), clock(c), contact(c.boot_time().count()) {}

  Task<Status> load();
  Task<Status> follow_once();
  Task<Status> watch(Revision from);
  Task<Status> poll();
  /// Takes what was read or watched; `sent` is when we asked, none for an event.
  Status install(const RangeResult& all, BootTime sent);
  Status install(const WatchBatch& batch);
  Status publish();
  void touch(BootTime sent);
  void notify();

  MetaStore& store;
  Clock& clock;
  std::atomic<std::int64_t> contact;
  Snapshot<ClusterState> state;
  using Listener = std::function<void(const ClusterState&, const ClusterState&)>;
  std::mutex listeners_mutex;  // guards the next: listeners may come while the follower runs
  std::vector<Listener> listeners;
  std::shared_ptr<const ClusterState> notified = state.get();  // the follower's

  std::mutex mutex;  // guards builder and the order of state
  StateBuilder builder;
};

void ClusterView::Impl::touch(BootTime sent) {
  std::int64_t before = contact.load();
  while (before < sent.count() && !contact.compare_exchange_weak(before, sent.count())) {
  }
}

Status ClusterView::Impl::publish() {
  TRY(auto next, builder.build());
  if (next->revision > state.get()->revision) state.set(std::move(next));
  return {};
}

Status ClusterView::Impl::install(const RangeResult& all, BootTime sent) {
  const std::lock_guard lock(mutex);
  if (all.revision >= builder.revision()) builder.reset(all);
  TRY_OK(publish());
  touch(sent);
  return {};
}

Status ClusterView::Impl::install(const WatchBatch& batch) {
  const std::lock_guard lock(mutex);
  // A range on another loop may have been faster: what it brought holds these events already.
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
    const std::lock_guard lock(listeners_mutex);
    all = listeners;
  }
  for (const auto& listener : all) listener(*before, *now);
}

Task<Status> ClusterView::Impl::load() {
  const BootTime sent = clock.boot_time();
  CO_TRY(const auto all, co_await store.range(everything()));
  co_return install(all, sent);
}

/// Ends with the watch. Cancellation is a value here and in poll(): of two that throw, Asio's ||
/// makes an exception that nobody would take for a cancellation.
Task<Status> ClusterView::Impl::watch(Revision from) {
  co_await asio::this_coro::throw_if_cancelled(false);
  Status broken;
  const auto sink = [this, &broken](WatchBatch batch) {
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
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (int polls = 1;; ++polls) {
    timer.expires_after(kPoll);
    const auto [error] = co_await timer.async_wait(kTuple);
    if (error || co_await is_cancelled())
      co_return fail(Errc::cancelled, "the follower was cancelled");
    const BootTime sent = clock.boot_time();
    RangeRequest versions{std::string(keys::kVersions), prefix_end(std::string(keys::kVersions)),
                          0};
    CO_TRY(const auto newest, co_await store.range(std::move(versions)));
    const auto known = state.get();
    bool current = polls % kPollsPerReload != 0;
    for (const KeyValue& item : newest.items) {
      const auto have = item.key == keys::kMapVersion ? known->map.version : known->bmd.version;
      current = current && parse_u64(item.value) <= have;
    }
    if (current) {
      touch(sent);
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
    const std::lock_guard lock(mutex);
    from = builder.revision() + 1;
  }
  // A cancellation that came before the two are joined would reach neither of them.
  if (co_await is_cancelled()) co_return fail(Errc::cancelled, "the follower was cancelled");
  auto ended = co_await (watch(from) || poll());
  co_return std::visit([](auto& status) -> Status { return std::move(status); }, ended);
}

ClusterView::ClusterView(MetaStore& store, Clock& clock)
    : impl_(std::make_shared<Impl>(store, clock)) {}

ClusterView::~ClusterView() = default;

Task<Status> ClusterView::load() { return impl_->load(); }

Task<void> ClusterView::follow() {
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto impl = impl_;
  asio::steady_timer timer(co_await asio::this_coro::executor);
  auto pause = kBackOffMin;
  bool away = false;
  for (;;) {
    const auto begun = impl->clock.boot_time();
    const auto ended = co_await impl->follow_once();
    if (co_await is_cancelled()) co_return;
    const bool was_up = impl->clock.boot_time() - begun > kBackOffMax;
    if (was_up) pause = kBackOffMin;
    const bool resync = !ended && ended.error().code == Errc::conflict;
    if (!ended && !resync && (was_up || !away))
      obs::log("cluster").warn("meta store lost err={}", ended.error().message);
    away = !resync;
    // Half fixed, half random: nodes that lost the store together shall not come back together.
    const auto jitter = random_u64() % static_cast<std::uint64_t>(pause.count());
    timer.expires_after(pause / 2 + std::chrono::milliseconds(jitter / 2));
    if (const auto [error] = co_await timer.async_wait(kTuple); error) co_return;
    pause = std::min(pause * 2, kBackOffMax);
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

void ClusterView::on_change(
    std::function<void(const ClusterState&, const ClusterState&)> listener) {
  const std::lock_guard lock(impl_->listeners_mutex);
  impl_->listeners.push_back(std::move(listener));
}

}  // namespace tarn::cluster
