#include "common/cluster/store/embedded_store.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/experimental/concurrent_channel.hpp>

#include "common/base/completion.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/resume.h"
#include "common/cluster/store/meta_database.h"
#include "common/cluster/store/meta_model.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

using Wake = asio::experimental::concurrent_channel<void(boost::system::error_code)>;
using namespace std::chrono_literals;

constexpr std::size_t kQueueMax = 1'024;
/// Interval at which the thread looks at the clock while leases run, so that one moved by hand is
/// noticed too.
constexpr auto kLeasePoll = 500ms;
/// Time for which the store refuses changes before it opens its database again after a failed
/// write.
constexpr auto kReopenPause = 1s;
constexpr std::chrono::seconds kLeaseMax{24 * 3600};

}  // namespace

/// Shared with the coroutines of watches, so that a store that stops can still end them.
///
/// Changes are decided and applied by one thread only, so its plan stays true while it writes
/// without the mutex.
struct EmbeddedStore::Core {
  Core(std::filesystem::path where, Clock& time, std::unique_ptr<MetaDatabase> opened)
      : directory(std::move(where)), clock(time), database(std::move(opened)) {
    auto contents = database->take_contents();
    model =
        MetaModel(contents.revision, std::move(contents.items), contents.leases, clock.boot_time());
  }

  /// Runs on the store's thread until stop().
  void run();
  void stop();
  /// False when the store stops or its queue is full.
  bool submit(std::function<void()> job);
  /// Plans under the mutex, makes the change durable, applies it and wakes the watches. On the
  /// thread.
  template <class Plan>
  Result<Revision> change(Plan plan);
  Status make_durable(const Change& change);
  void end_expired_leases();
  /// Loads the database again after a write that failed. On the thread.
  Status reopen();
  void wake_watches() TARN_REQUIRES(mutex);

  const std::filesystem::path directory;
  Clock& clock;
  std::unique_ptr<MetaDatabase> database;  // the thread's; none while it cannot be opened
  std::chrono::steady_clock::time_point next_reopen{};

  Mutex mutex;
  ConditionVariable changed;
  MetaModel model TARN_GUARDED_BY(mutex);
  std::deque<std::function<void()>> queue TARN_GUARDED_BY(mutex);
  std::list<std::shared_ptr<Wake>> watches TARN_GUARDED_BY(mutex);
  bool stopping TARN_GUARDED_BY(mutex) = false;
  bool watches_ended TARN_GUARDED_BY(mutex) = false;
};

struct EmbeddedStore::Impl {
  std::shared_ptr<Core> core;
  std::thread thread;
};

void EmbeddedStore::Core::run() {
  MutexLock lock(mutex);
  while (!stopping) {
    if (queue.empty()) {
      if (const auto deadline = model.next_deadline()) {
        const auto left = std::max(*deadline - clock.boot_time(), BootTime(0));
        changed.wait_until(lock,
                           std::chrono::steady_clock::now() + std::min<BootTime>(left, kLeasePoll));
      } else {
        changed.wait(lock);
      }
    }
    std::function<void()> job;
    if (!queue.empty()) {
      job = std::move(queue.front());
      queue.pop_front();
    }
    lock.unlock();
    end_expired_leases();
    if (job) job();
    lock.lock();
  }
  // Jobs that were accepted are answered, if only with an error: see change().
  auto left = std::exchange(queue, {});
  lock.unlock();
  for (const auto& job : left) job();
}

void EmbeddedStore::Core::stop() {
  const MutexLock lock(mutex);
  stopping = true;
  changed.notify_all();
  wake_watches();
}

bool EmbeddedStore::Core::submit(std::function<void()> job) {
  const MutexLock lock(mutex);
  if (stopping || queue.size() >= kQueueMax) return false;
  queue.push_back(std::move(job));
  changed.notify_all();
  return true;
}

template <class Plan>
Result<Revision> EmbeddedStore::Core::change(Plan plan) {
  {
    const MutexLock lock(mutex);
    if (stopping) return fail(Errc::unavailable, "the embedded meta store is closing");
  }
  if (!database) TRY_OK(reopen());
  Change planned;
  {
    const MutexLock lock(mutex);
    TRY(auto decided, plan(std::as_const(model)));
    if (!decided) return fail(Errc::precondition_failed, "a comparison does not hold");
    if (decided->empty()) return model.revision();
    planned = std::move(*decided);
  }
  TRY_OK(make_durable(planned));
  const MutexLock lock(mutex);
  model.apply(planned, clock.boot_time());
  wake_watches();
  return planned.revision;
}

Status EmbeddedStore::Core::make_durable(const Change& change) {
  const auto written = database->write(change);
  if (written) return {};
  // The change may be on disk or not. No further change is written before a new look has shown it.
  obs::log("meta").error("commit failed dir={} err={}", directory.string(),
                         written.error().message);
  database.reset();
  next_reopen = std::chrono::steady_clock::now() + kReopenPause;
  const Errc code = written.error().code == Errc::corrupt ? Errc::corrupt : Errc::unavailable;
  return fail(code, "the outcome of the change is not known: {}", written.error().message);
}

Status EmbeddedStore::Core::reopen() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_reopen)
    return fail(Errc::unavailable, "the embedded meta store at {} cannot be written",
                directory.string());
  next_reopen = now + kReopenPause;
  auto opened = MetaDatabase::open(directory);
  if (!opened) {
    obs::log("meta").error("reopen failed dir={} err={}", directory.string(),
                           opened.error().message);
    const Errc code = opened.error().code == Errc::corrupt ? Errc::corrupt : Errc::unavailable;
    return fail(code, "{}", opened.error().message);
  }
  database = std::move(*opened);
  auto contents = database->take_contents();
  obs::log("meta").info("reopened dir={} revision={}", directory.string(), contents.revision);
  const MutexLock lock(mutex);
  model =
      MetaModel(contents.revision, std::move(contents.items), contents.leases, clock.boot_time());
  wake_watches();
  return {};
}

void EmbeddedStore::Core::end_expired_leases() {
  std::vector<LeaseId> expired;
  {
    const MutexLock lock(mutex);
    expired = model.expired(clock.boot_time());
  }
  if (expired.empty()) return;
  // A failure was logged where it happened; the leases stay, ended for every caller, and are tried
  // again.
  const auto ended = change(
      [&](const MetaModel& now) -> Result<std::optional<Change>> { return now.plan_end(expired); });
  if (ended) obs::log("meta").info("leases ended count={}", expired.size());
}

void EmbeddedStore::Core::wake_watches() {
  for (const auto& watch : watches) watch->try_send(boost::system::error_code());
}

EmbeddedStore::EmbeddedStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

EmbeddedStore::~EmbeddedStore() {
  impl_->core->stop();
  impl_->thread.join();
  impl_->core->database.reset();  // a watch may keep the core, but not the files
}

void EmbeddedStore::end_watches() {
  const MutexLock lock(impl_->core->mutex);
  impl_->core->watches_ended = true;
  impl_->core->wake_watches();
}

Result<std::unique_ptr<EmbeddedStore>> EmbeddedStore::open(const std::filesystem::path& directory,
                                                           Clock& clock) {
  TRY(auto database, MetaDatabase::open(directory));
  auto impl = std::make_unique<Impl>();
  impl->core = std::make_shared<Core>(directory, clock, std::move(database));
  impl->thread = std::thread([core = impl->core] { core->run(); });
  return std::unique_ptr<EmbeddedStore>(new EmbeddedStore(std::move(impl)));
}

/// Runs `work` on the store's thread and comes back with its result.
template <class T, class Work>
Task<Result<T>> EmbeddedStore::on_thread(Work work) {
  const auto core = impl_->core;
  return await_completion<Result<T>>([core, work = std::move(work)](const auto& done) {
    if (!core->submit([done, work] { done(work()); }))
      done(fail(Errc::unavailable, "the embedded meta store is closing or overloaded"));
  });
}

Task<Result<RangeResult>> EmbeddedStore::range(RangeRequest request) {
  const MutexLock lock(impl_->core->mutex);
  co_return impl_->core->model.range(request);
}

Task<Result<TransactionResult>> EmbeddedStore::commit(Transaction transaction) {
  const auto work = [core = impl_->core.get(),
                     transaction = std::move(transaction)]() -> Result<TransactionResult> {
    const auto done = core->change([&](const MetaModel& now) { return now.plan(transaction); });
    if (done) return TransactionResult{true, *done};
    if (done.error().code != Errc::precondition_failed) return fail(done.error());
    const MutexLock lock(core->mutex);
    return TransactionResult{false, core->model.revision()};
  };
  co_return co_await on_thread<TransactionResult>(work);
}

Task<Result<LeaseId>> EmbeddedStore::grant(std::chrono::seconds ttl) {
  if (ttl < 1s || ttl > kLeaseMax)
    co_return fail(Errc::invalid_argument, "a lease of {} s: 1 to {} are allowed", ttl.count(),
                   kLeaseMax.count());
  const auto id = static_cast<LeaseId>((random_u64() >> 1U) | 1U);
  const auto work = [core = impl_->core.get(), id, ttl]() -> Result<LeaseId> {
    TRY_OK(core->change([&](const MetaModel& now) -> Result<std::optional<Change>> {
      return now.plan_grant({id, ttl});
    }));
    return id;
  };
  co_return co_await on_thread<LeaseId>(work);
}

Task<Result<std::chrono::seconds>> EmbeddedStore::keep_alive(LeaseId lease) {
  const MutexLock lock(impl_->core->mutex);
  co_return impl_->core->model.keep_alive(lease, impl_->core->clock.boot_time());
}

Task<Status> EmbeddedStore::revoke(LeaseId lease) {
  const auto work = [core = impl_->core.get(), lease]() -> Result<bool> {
    TRY_OK(core->change([&](const MetaModel& now) -> Result<std::optional<Change>> {
      if (!now.has_lease(lease)) return fail(Errc::not_found, "lease {} has ended", lease);
      return now.plan_end({lease});
    }));
    return true;
  };
  CO_TRY_OK(co_await on_thread<bool>(work));
  co_return Status();
}

Task<Result<LeaseState>> EmbeddedStore::time_to_live(LeaseId lease) {
  const MutexLock lock(impl_->core->mutex);
  co_return impl_->core->model.time_to_live(lease, impl_->core->clock.boot_time());
}

Task<Status> EmbeddedStore::watch(std::string prefix, Revision from,
                                  std::function<bool(WatchBatch)> sink) {
  const auto core = impl_->core;
  const auto wake = std::make_shared<Wake>(co_await asio::this_coro::executor, 1);
  {
    const MutexLock lock(core->mutex);
    if (from == 0) from = core->model.revision() + 1;
    core->watches.push_back(wake);
  }
  const std::shared_ptr<void> registered(nullptr, [core, wake](void*) {
    const MutexLock lock(core->mutex);
    core->watches.remove(wake);
  });
  for (;;) {
    Result<WatchBatch> batch;
    {
      const MutexLock lock(core->mutex);
      if (core->stopping || core->watches_ended)
        co_return fail(Errc::unavailable, "the embedded meta store is closing");
      batch = core->model.changes(prefix, from);
    }
    CO_TRY(auto next, std::move(batch));
    const bool more = next.revision >= from;
    from = next.revision + 1;
    if (!next.events.empty() && !sink(std::move(next))) co_return Status();
    if (more) continue;
    // A cancellation reaches only a wait that is under way; here it may have met a wake-up on its
    // way.
    if (co_await is_cancelled()) co_return fail(Errc::cancelled, "the watch was cancelled");
    const auto [error] = co_await wake->async_receive(kTuple);
    if (error) co_return fail(Errc::cancelled, "the watch was cancelled");
  }
}

}  // namespace tarn::cluster
