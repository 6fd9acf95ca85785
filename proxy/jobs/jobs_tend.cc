// Work that Jobs does all the time: following the store, taking over jobs that no proxy drives,
// writing progress, forgetting jobs that ended long ago.

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/event.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/base/resume.h"
#include "common/cluster/store/keys.h"
#include "common/obs/log.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/kept_jobs.h"

namespace tarn::proxy {
namespace {

using namespace std::chrono_literals;
using cluster::Compare;
using cluster::Revision;
using cluster::Transaction;

constexpr auto kJobsTendLookEvery = 200ms;
constexpr auto kJobsTendRestEvery = 500ms;
constexpr auto kForgetEvery = 10s;
constexpr auto kReloadEvery = 30s;  // for changes that a watch may have missed
constexpr std::size_t kForgottenAtOnce = 50;

/// Asio's || would make an exception of its own of two that throw when they are cancelled.
Task<void> doze(std::chrono::milliseconds time) {
  co_await asio::this_coro::throw_if_cancelled(false);
  co_await pause(time);
}

}  // namespace

Task<void> Jobs::watch(Revision from) {
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto sink = [this](const cluster::WatchBatch& batch) {
    const MutexLock lock(mutex_);
    for (const auto& event : batch.events) {
      if (event.type == cluster::WatchEvent::Type::put)
        install(event.item);
      else if (event.item.key.starts_with(cluster::keys::kJobs))
        remove(event.item.key.substr(cluster::keys::kJobs.size()), event.item.mod_revision);
    }
    return true;
  };
  static_cast<void>(co_await node_.store.watch(std::string(cluster::keys::kAllOfJobs), from, sink));
}

Task<void> Jobs::follow() {
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!co_await is_cancelled()) {
    const auto loaded = co_await load();
    if (co_await is_cancelled()) co_return;
    if (loaded) co_await first_of(watch(*loaded + 1), doze(kReloadEvery));
    if (co_await is_cancelled()) co_return;
    co_await pause(kJobsTendLookEvery);
  }
}

bool Jobs::is_orphan(const Held& held) const {
  if (held.driven || !held.job.is_running()) return false;
  const std::string& proxy = held.job.driver.proxy;
  return proxy.empty() || proxy == node_.self.proxy || !node_.is_live(proxy);
}

Task<void> Jobs::take_orphans() {
  std::vector<std::pair<Job, Revision>> orphans;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, held] : jobs_)
      if (is_orphan(held)) orphans.emplace_back(held.job, held.revision);
  }
  for (auto& [job, revision] : orphans) {
    if (!node_.holds_lease()) co_return;
    const std::string before = job.driver.proxy == node_.self.proxy ? "" : job.driver.proxy;
    if (!take(job, node_.self)) continue;
    const auto done = co_await write(job, revision, before);
    if (!done || !*done) {
      (void)co_await fetch(job.id);
      continue;
    }
    {
      const MutexLock lock(mutex_);
      jobs_[job.id].driven = true;
    }
    obs::log("proxy").info("job taken kind={} job={} run={} from={}", job.kind, job.id, job.runs,
                           before);
    spawn(co_await asio::this_coro::executor, std::move(job));
  }
}

Task<void> Jobs::write_progress() {
  std::vector<std::pair<Job, Revision>> changed;
  {
    const MutexLock lock(mutex_);
    for (auto& [id, held] : jobs_) {
      if (!held.driven || !held.changed || !held.job.is_running() || held.revision == 0) continue;
      if (node_.clock.boot_time() - held.written < kWriteEvery) continue;
      held.changed = false;
      held.written = node_.clock.boot_time();
      changed.emplace_back(held.job, held.revision);
    }
  }
  for (auto& [job, revision] : changed) {
    const std::string id = job.id;
    if (encode(job).size() > kRecordBytesMax) continue;
    const auto done = co_await write(std::move(job), revision);
    if (done && !*done) (void)co_await fetch(id);
  }
}

Task<void> Jobs::forget_old() {
  std::vector<EndedJob> ended;
  std::map<std::string, Revision> revisions;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, held] : jobs_) {
      if (held.job.is_running()) continue;
      ended.push_back({id, held.job.kind, held.job.ended_ns, held.bytes});
      revisions[id] = held.revision;
    }
  }
  const auto old = jobs_to_forget(std::move(ended), {}, node_.clock.wall_time().count());
  for (std::size_t at = 0; at < old.size(); at += kForgottenAtOnce) {
    Transaction transaction;
    const std::size_t until = std::min(at + kForgottenAtOnce, old.size());
    for (std::size_t i = at; i < until; ++i) {
      const std::string key = cluster::keys::job(old[i]);
      // Another record of that id, which runs, has another revision.
      TARN_CHECK(revisions.contains(old[i]) && revisions[old[i]] != 0);
      transaction.compare.push_back({key, Compare::What::mod_revision, revisions[old[i]]});
      transaction.deletes.push_back({key, ""});
    }
    const auto done = co_await node_.store.commit(std::move(transaction));
    if (!done || !done->succeeded) co_return;  // another proxy was faster: next time
    const MutexLock lock(mutex_);
    for (std::size_t i = at; i < until; ++i) remove(old[i], done->revision);
  }
}

Task<void> Jobs::tend() {
  co_await asio::this_coro::throw_if_cancelled(false);
  BootTime forgot = node_.clock.boot_time();
  while (!co_await is_cancelled()) {
    co_await pause_until(next_tick(kJobsTendRestEvery));
    if (co_await is_cancelled()) co_return;
    if (!node_.holds_lease()) continue;
    co_await take_orphans();
    co_await write_progress();
    if (node_.clock.boot_time() - forgot < kForgetEvery) continue;
    co_await forget_old();
    forgot = node_.clock.boot_time();
  }
}

}  // namespace tarn::proxy
