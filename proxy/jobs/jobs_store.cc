// Records of Jobs in the meta store: reads and writes.

#include <algorithm>
#include <utility>

#include "common/base/fail_point.h"
#include "common/cluster/store/attempts.h"
#include "common/cluster/store/keys.h"
#include "proxy/jobs/jobs.h"

namespace tarn::proxy {
namespace {

using cluster::Compare;
using cluster::Revision;
using cluster::Transaction;

}  // namespace

Task<Result<Revision>> Jobs::load() {
  cluster::RangeRequest all{std::string(cluster::keys::kAllOfJobs),
                            cluster::prefix_end(std::string(cluster::keys::kAllOfJobs)), 0};
  CO_TRY(const auto found, co_await node_.store.range(std::move(all)));
  const MutexLock lock(mutex_);
  std::map<std::string, Revision> there;
  for (const auto& item : found.items) {
    install(item);
    if (item.key.starts_with(cluster::keys::kJobs))
      there[item.key.substr(cluster::keys::kJobs.size())] = item.mod_revision;
  }
  std::vector<std::string> gone;
  for (const auto& [id, held] : jobs_)
    if (!there.contains(id)) gone.push_back(id);
  for (const std::string& id : gone) remove(id, found.revision);
  co_return found.revision;
}

Task<Status> Jobs::fetch(std::string id) {
  cluster::RangeRequest key{cluster::keys::job(id), "", 0};
  CO_TRY(const auto found, co_await node_.store.range(std::move(key)));
  const MutexLock lock(mutex_);
  if (found.items.empty())
    remove(id, found.revision);
  else
    install(found.items.front());
  co_return Status();
}

Task<Result<Revision>> Jobs::cluster_revision() {
  cluster::RangeRequest key{std::string(cluster::keys::kCluster), "", 0};
  CO_TRY(const auto found, co_await node_.store.range(std::move(key)));
  if (found.items.empty())
    co_return fail(Errc::unavailable, "there is no cluster in the meta store");
  co_return found.items.front().mod_revision;
}

Task<Status> Jobs::catch_up() {
  for (std::string& id : ending()) CO_TRY_OK(co_await fetch(std::move(id)));
  cluster::RangeRequest key{std::string(cluster::keys::kLastJob), "", 0};
  CO_TRY(const auto found, co_await node_.store.range(std::move(key)));
  if (found.items.empty()) co_return Status();
  {
    const MutexLock lock(mutex_);
    if (found.items.front().mod_revision <= last_start_) co_return Status();
  }
  CO_TRY_OK(co_await load());
  co_return Status();
}

Task<Result<Job>> Jobs::look_up(std::string id) {
  bool newest = false;
  {
    const MutexLock lock(mutex_);
    const auto known = jobs_.find(id);
    newest = known != jobs_.end() &&
             ((known->second.driven && !known->second.ending) || !known->second.job.is_running());
  }
  Status fetched;
  if (!newest) fetched = co_await fetch(id);
  const auto job = find(id);
  if (job) co_return *job;
  if (!fetched) co_return fail(fetched.error());
  co_return fail(Errc::not_found, "there is no job with the id '{}'", id);
}

/// True: it is written. False: the record is another one than at `revision`, or (if given) the
/// proxy `gone` is there.
Task<Result<bool>> Jobs::write(Job next, Revision revision, std::string gone) {
  const std::string id = next.id;
  std::string text = encode(next);
  const std::size_t bytes = text.size();
  Transaction transaction;
  transaction.compare.push_back({cluster::keys::job(id), Compare::What::mod_revision, revision});
  if (!gone.empty())
    transaction.compare.push_back({cluster::keys::live(gone), Compare::What::create_revision, 0});
  transaction.puts.push_back({cluster::keys::job(id), std::move(text), 0});
  CO_TRY(const auto done, co_await node_.store.commit(std::move(transaction)));
  CO_FAIL_POINT("jobs.after_write");
  if (!done.succeeded) co_return false;
  const MutexLock lock(mutex_);
  Held& held = jobs_[id];
  if (held.revision < done.revision) {
    held.revision = done.revision;
    held.bytes = bytes;
    held.written = node_.clock.boot_time();
    if (held.driven && next.is_running())
      held.job.stop_asked = next.stop_asked;
    else
      held.job = std::move(next);
  }
  co_return true;
}

/// Edits by compare-and-swap, until it succeeds. `edit` may be called several times; if it returns
/// false no record is written. Returns the job as it is then.
Task<Result<Job>> Jobs::change(std::string id, Edit edit) {
  for (cluster::Attempts attempts; co_await attempts.next();) {
    std::optional<Held> base;
    {
      const MutexLock lock(mutex_);
      const auto found = jobs_.find(id);
      if (found != jobs_.end()) base = found->second;
    }
    if (!base) {
      CO_TRY_OK(co_await look_up(id));
      continue;
    }
    if (!edit(base->job)) co_return base->job;
    const auto done = co_await write(base->job, base->revision);
    if (done && *done) co_return base->job;
    // Lost to another writer, or the outcome is unknown: the present record decides.
    CO_TRY_OK(co_await fetch(id));
  }
  co_return fail(Errc::unavailable, "job {} is being changed by others all the time", id);
}

}  // namespace tarn::proxy
