#include "proxy/jobs/jobs.h"

#include <algorithm>
#include <utility>

#include <boost/system/system_error.hpp>

#include "common/base/check.h"
#include "common/base/pause.h"
#include "common/base/random.h"
#include "common/base/resume.h"
#include "common/cluster/store/keys.h"
#include "common/obs/log.h"

namespace tarn::proxy {
namespace {

using namespace std::chrono_literals;
using cluster::Compare;
using cluster::Revision;
using cluster::Transaction;

constexpr std::size_t kIdLength = 10;  // AIStore's clients want nine at least
constexpr int kJobsAttemptsMax = 50;
constexpr auto kJobsLookEvery = 200ms;
constexpr auto kEndLookEvery = 20ms;

std::string id_in(const std::string& key) { return key.substr(cluster::keys::kJobs.size()); }

/// A record that the store would refuse is made one that it takes.
void make_fit(Job& job) {
  if (encode(job).size() <= Jobs::kRecordBytesMax) return;
  const std::size_t results = job.results.size();
  job.results.clear();
  job.error = fmt::format(
      "its {} results are more than the meta store takes: ask for fewer at once", results);
}

}  // namespace

/// The store has newer knowledge of one fact of a job that is driven here: that a user wants it to
/// end.
void Jobs::install(const cluster::KeyValue& item) {
  if (item.key == cluster::keys::kLastJob) {
    last_start_ = std::max(last_start_, item.mod_revision);
    return;
  }
  if (!item.key.starts_with(cluster::keys::kJobs)) return;
  auto job = decode_job(item.value);
  if (!job) {
    obs::log("proxy").warn("key={} err={}", item.key, job.error().message);
    return;
  }
  Held& held = jobs_[id_in(item.key)];
  if (item.mod_revision <= held.revision) return;
  held.revision = item.mod_revision;
  held.bytes = item.value.size();
  if (held.driven && job->is_running() && job->driver == node_.self) {
    held.job.stop_asked = job->stop_asked;
    return;
  }
  if (held.driven && job->driver != node_.self)
    obs::log("proxy").warn("job taken over by another proxy job={} node={}", job->id,
                           job->driver.proxy);
  held.driven = held.driven && job->driver == node_.self;
  held.job = std::move(*job);
}

void Jobs::remove(const std::string& id, Revision revision) {
  const auto found = jobs_.find(id);
  if (found != jobs_.end() && found->second.revision != 0 && found->second.revision <= revision)
    jobs_.erase(found);
}

std::optional<Job> Jobs::find(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.revision == 0) return std::nullopt;
  return found->second.job;
}

std::vector<Job> Jobs::all() const {
  std::vector<Job> out;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, held] : jobs_)
      if (held.revision != 0) out.push_back(held.job);
  }
  std::sort(out.begin(), out.end(), [](const Job& a, const Job& b) {
    return std::pair(a.started_ns, a.id) < std::pair(b.started_ns, b.id);
  });
  return out;
}

std::vector<Job> Jobs::driven() const {
  std::vector<Job> out;
  const MutexLock lock(mutex_);
  for (const auto& [id, held] : jobs_)
    if (held.driven && !held.ending && held.revision != 0) out.push_back(held.job);
  return out;
}

void Jobs::update(const std::string& id, const std::function<void(Job&)>& change) {
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || !found->second.driven || !found->second.job.is_running()) return;
  change(found->second.job);
  TARN_CHECK(found->second.job.is_running());  // finish() alone ends it, by compare-and-swap
  found->second.changed = true;
}

bool Jobs::should_stop(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(id);
  return found == jobs_.end() || !found->second.driven || found->second.job.stop_asked;
}

/// Reason why `refuse` refuses; empty if it does not.
std::string Jobs::refused(const Refusal& refuse) const {
  for (const auto& [id, held] : jobs_) {
    if (held.revision == 0 || !held.job.is_running()) continue;
    std::string why = refuse(held.job);
    if (!why.empty()) return why;
  }
  return "";
}

/// True: the record is there. False: there is one of that id, or (`exclusive`) another job has
/// begun since `last`.
Task<Result<bool>> Jobs::commit_new(Job job, bool exclusive, Revision last) {
  const std::string id = job.id;
  std::string text = encode(job);
  const std::size_t bytes = text.size();
  if (bytes > kRecordBytesMax)
    co_return fail(Errc::invalid_argument, "what the job has to do takes {} bytes, at most are {}",
                   bytes, kRecordBytesMax);
  CO_TRY(const Revision cluster, co_await cluster_revision());
  Transaction transaction;
  transaction.compare.push_back(
      {std::string(cluster::keys::kCluster), Compare::What::mod_revision, cluster});
  transaction.compare.push_back({cluster::keys::job(id), Compare::What::create_revision, 0});
  if (exclusive)
    transaction.compare.push_back(
        {std::string(cluster::keys::kLastJob), Compare::What::mod_revision, last});
  transaction.puts.push_back({cluster::keys::job(id), std::move(text), 0});
  transaction.puts.push_back({std::string(cluster::keys::kLastJob), id, 0});
  const auto done = co_await node_.store.commit(std::move(transaction));
  if (done && !done->succeeded) co_return false;
  if (!done && done.error().code != Errc::unavailable) co_return fail(done.error());
  if (!done) {  // an outcome that is not known
    CO_TRY_OK(co_await fetch(id));
    co_return find(id).has_value();
  }
  const MutexLock lock(mutex_);
  Held& held = jobs_[id];
  if (held.revision < done->revision) {
    held.revision = done->revision;
    held.bytes = bytes;
    if (!held.driven) held.job = std::move(job);
  }
  if (exclusive) last_start_ = std::max(last_start_, done->revision);
  co_return true;
}

/// Writes the record of a job that this proxy drives.
Task<Result<std::string>> Jobs::begin(Job& job, Refusal refuse) {
  if (!node_.holds_lease())
    co_return fail(Errc::unavailable, "this proxy has no lease now; try again");
  if (job.id.empty()) job.id = random_id(kIdLength);
  job.started_ns = node_.clock.wall_time().count();
  (void)take(job, node_.self);
  for (int attempt = 0; attempt < kJobsAttemptsMax; ++attempt) {
    if (refuse) CO_TRY_OK(co_await catch_up());
    Revision last = 0;
    {
      const MutexLock lock(mutex_);
      const auto driven = std::count_if(jobs_.begin(), jobs_.end(),
                                        [](const auto& each) { return each.second.driven; });
      if (attempt == 0 && driven >= static_cast<std::ptrdiff_t>(kRunningMax))
        co_return fail(Errc::unavailable, "{} jobs are running already; try again soon", driven);
      if (attempt > 0 && jobs_[job.id].revision != 0) co_return job.id;  // done after all
      std::string why = refuse ? refused(refuse) : "";
      if (!why.empty()) {
        jobs_.erase(job.id);
        co_return fail(Error{Errc::conflict, std::move(why)});
      }
      last = last_start_;
      Held& held = jobs_[job.id];
      held.job = job;
      held.driven = true;  // before it is there: no other task here may take it for an orphan
    }
    const auto done = co_await commit_new(job, refuse != nullptr, last);
    if (done && *done) co_return job.id;
    if (!done) {
      release(job.id);
      co_return fail(done.error());
    }
  }
  release(job.id);
  co_return fail(Errc::unavailable, "other jobs are begun all the time; try again");
}

Task<Result<std::string>> Jobs::start(Job job, Refusal refuse) {
  CO_TRY(const std::string id, co_await begin(job, std::move(refuse)));
  spawn(co_await asio::this_coro::executor, std::move(job));
  co_return id;
}

Task<Result<std::string>> Jobs::carry_out(Job job, Refusal refuse) {
  CO_TRY(const std::string id, co_await begin(job, std::move(refuse)));
  Status result = co_await work(std::move(job));
  if (!result) {
    co_await forget(id);
    co_return fail(result.error());
  }
  co_await finish(id, std::move(result));
  co_return id;
}

Task<Result<bool>> Jobs::add_pending(Job job) {
  job.started_ns = node_.clock.wall_time().count();
  const auto done = co_await commit_new(std::move(job), false, 0);
  co_return done;
}

Task<bool> Jobs::is_ours(std::string id) {
  while (true) {
    const Status fetched = co_await fetch(id);
    if (fetched && node_.holds_lease()) break;
    if (co_await is_cancelled()) co_return false;
    co_await pause(kJobsLookEvery);
  }
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(id);
  co_return found != jobs_.end() && found->second.driven;
}

void Jobs::release(const std::string& id) {
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  found->second.driven = false;
  if (found->second.revision == 0) jobs_.erase(found);
}

/// Rethrows the exception of a job that is cancelled: the job goes on elsewhere, or here after a
/// restart.
Task<Status> Jobs::work(Job job) {
  const std::string id = job.id;
  std::string broken;
  try {
    Status result = co_await drive_(std::move(job));
    co_return result;
  } catch (const boost::system::system_error& problem) {
    if (problem.code() == asio::error::operation_aborted) {
      release(id);
      throw;
    }
    broken = problem.what();
  } catch (const std::exception& problem) {
    broken = problem.what();
  }
  co_return fail(Errc::internal, "{}", broken);
}

Task<void> Jobs::run(Job job) {
  const std::string id = job.id;
  const std::string kind = job.kind;
  Status result = co_await work(std::move(job));
  // A proxy that ends cancels its jobs. Their results have no meaning then: other proxies go on
  // with them.
  const auto state = co_await asio::this_coro::cancellation_state;
  if (state.cancelled() != asio::cancellation_type::none) {
    release(id);
    co_return;
  }
  if (result)
    obs::log("proxy").info("job done kind={} job={}", kind, id);
  else
    obs::log("proxy").warn("job not done kind={} job={} err={}", kind, id, result.error().message);
  co_await finish(id, std::move(result));
}

void Jobs::spawn(asio::any_io_executor executor, Job job) {
  const std::string id = job.id;
  std::string name = fmt::format("{}[{}]", job.kind, id);
  if (!node_.tasks.spawn(std::move(executor), std::move(name), run(std::move(job)))) release(id);
}

void Jobs::note_ending(const std::string& id) {
  const MutexLock lock(mutex_);
  if (const auto found = jobs_.find(id); found != jobs_.end()) found->second.ending = true;
}

std::vector<std::string> Jobs::ending() const {
  std::vector<std::string> out;
  const MutexLock lock(mutex_);
  for (const auto& [id, held] : jobs_)
    if (held.driven && held.ending && held.job.is_running()) out.push_back(id);
  return out;
}

Task<void> Jobs::finish(std::string id, Status result) {
  note_ending(id);
  const std::int64_t now = node_.clock.wall_time().count();
  const auto edit = [&](Job& job) {
    if (job.driver != node_.self || !end(job, result, now)) return false;
    make_fit(job);
    return true;
  };
  while (true) {
    const auto done = co_await change(id, edit);
    if (done || done.error().code == Errc::not_found) break;
    if (co_await is_cancelled()) break;
    co_await pause(kJobsLookEvery);
  }
  release(id);
}

Task<void> Jobs::forget(std::string id) {
  Revision revision = 0;
  {
    const MutexLock lock(mutex_);
    if (const auto found = jobs_.find(id); found != jobs_.end()) revision = found->second.revision;
  }
  Transaction transaction;
  transaction.compare.push_back({cluster::keys::job(id), Compare::What::mod_revision, revision});
  transaction.deletes.push_back({cluster::keys::job(id), ""});
  const auto done = co_await node_.store.commit(std::move(transaction));
  release(id);
  if (done && done->succeeded) {
    const MutexLock lock(mutex_);
    remove(id, done->revision);
  }
}

Task<Status> Jobs::wait_ended(std::string id, std::chrono::steady_clock::time_point deadline) {
  while (true) {
    const auto job = find(id);
    if (!job || !job->is_running()) co_return Status();
    if (std::chrono::steady_clock::now() > deadline)
      co_return fail(Errc::unavailable, "job {}[{}] was told to stop and has not ended yet",
                     job->kind, id);
    co_await pause(kEndLookEvery);
  }
}

Task<Status> Jobs::remove_ended(std::string id) {
  CO_TRY(const Job job, co_await look_up(id));
  if (job.is_running()) co_return fail(Errc::conflict, "job {}[{}] is running", job.kind, id);
  co_await forget(id);
  if (find(id)) co_return fail(Errc::unavailable, "job {}[{}] could not be removed", job.kind, id);
  co_return Status();
}

Task<Status> Jobs::ask_to_stop(std::string id) {
  CO_TRY_OK(co_await look_up(id));
  CO_TRY_OK(co_await change(id, [](Job& job) { return proxy::ask_to_stop(job); }));
  co_return Status();
}

}  // namespace tarn::proxy
