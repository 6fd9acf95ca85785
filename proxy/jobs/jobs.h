#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/cluster/store/meta_store.h"
#include "common/http/loops.h"
#include "proxy/jobs/job.h"

namespace tarn::proxy {

/// Parts of its proxy that Jobs needs. All of them must outlive the Jobs; the functions are called
/// from any thread.
struct JobsNode {
  cluster::MetaStore& store;
  Clock& clock;
  http::TaskGroup& tasks;
  JobDriver self;
  std::function<bool()> holds_lease;                ///< only then jobs are begun or taken over
  std::function<bool(const std::string&)> is_live;  ///< a proxy, as far as this one knows
};

/// All jobs of the cluster, and those that this proxy drives (docs/decisions/015). A record is
/// written when a job begins, when it is to stop and when it ends, each time by compare-and-swap;
/// of its progress only now and then. A job whose proxy is gone is taken over by another one, which
/// begins its work again. Thread-safe.
class Jobs {
 public:
  /// Most jobs that this proxy drives at a time.
  static constexpr std::size_t kRunningMax = 100;
  /// Shortest time between two writes of progress to the store.
  static constexpr std::chrono::seconds kWriteEvery{5};
  static constexpr std::size_t kRecordBytesMax = 1U << 20U;

  explicit Jobs(JobsNode node) : node_(std::move(node)) {}

  /// Does the work of a job, by its kind and record. It may be called for work that was begun
  /// before, by another proxy or by one that is gone, at any point of it: so it must be safe to
  /// begin again. It looks at should_stop() now and then, and at is_ours() before it makes other
  /// nodes act. Its result is that of the job: see end().
  using Drive = std::function<Task<Status>(Job)>;
  /// To be called once, before any other call.
  void drive_with(Drive drive) { drive_ = std::move(drive); }

  /// Reason why a job may not start beside one that runs; empty if it may.
  using Refusal = std::function<std::string(const Job& running)>;
  /// Writes the record of `job` with a start and, where it has none, an id. Begins its work on the
  /// caller's loop, and returns the id. conflict when `refuse` refuses it: asked about all jobs of
  /// the cluster that run, and none begins meanwhile. unavailable when the store is, or kRunningMax
  /// are driven here.
  Task<Result<std::string>> start(Job job, Refusal refuse = nullptr);
  /// The same, but returns when the work is done. One that fails is forgotten: its error is here.
  Task<Result<std::string>> carry_out(Job job, Refusal refuse = nullptr);
  /// Writes the record of a job that has its id and whose work any proxy may begin. False when
  /// there is, or was, a job of that id.
  Task<Result<bool>> add_pending(Job job);

  /// Shows a job to `change`, under the lock; for its driver. Changes are written soon. A no-op if
  /// the job is no longer driven here.
  void update(const std::string& id, const std::function<void(Job&)>& change);
  [[nodiscard]] bool should_stop(const std::string& id) const;
  /// True if this proxy still drives the job. If false, no step may be begun for it any more:
  /// another proxy drives it, it is gone, or the caller is cancelled. Waits as long as the store is
  /// away.
  Task<bool> is_ours(std::string id);

  /// Asks a job that runs to stop, whichever proxy drives it. Ok when it has ended. not_found,
  /// unavailable.
  Task<Status> ask_to_stop(std::string id);
  /// Waits until a job that was asked to stop has ended. unavailable when it has not at `deadline`.
  Task<Status> wait_ended(std::string id, std::chrono::steady_clock::time_point deadline);
  /// Forgets a job that has ended. conflict when it runs, not_found, unavailable.
  Task<Status> remove_ended(std::string id);

  /// Makes known here all jobs that began before this call. unavailable when the store is.
  Task<Status> catch_up();
  /// A job as it is now; of one that is driven elsewhere the progress may be some seconds old.
  /// not_found; unavailable when the store is and the job is not known here.
  Task<Result<Job>> look_up(std::string id);
  /// A job as known here, without a look at the store.
  [[nodiscard]] std::optional<Job> find(const std::string& id) const;
  /// All jobs that are known here, in the order they started.
  [[nodiscard]] std::vector<Job> all() const;
  /// Jobs that this proxy drives, whose state it knows best. Without those whose end is being
  /// written: only the store knows them.
  [[nodiscard]] std::vector<Job> driven() const;

  /// Follows the store. Runs until it is cancelled, as tend().
  Task<void> follow();
  /// Takes over jobs that no proxy drives, writes progress, forgets jobs that ended long ago.
  Task<void> tend();

 private:
  struct Held {
    Job job;
    cluster::Revision revision = 0;  ///< of the record; 0: not written yet
    std::size_t bytes = 0;           ///< of the record
    bool driven = false;             ///< by this proxy
    bool changed = false;            ///< since it was written
    bool ending = false;             ///< its end is being written: only the store has its state
    BootTime written{0};
  };
  using Edit = std::function<bool(Job&)>;

  Task<Result<std::string>> begin(Job& job, Refusal refuse);
  Task<Result<bool>> commit_new(Job job, bool exclusive, cluster::Revision last);
  Task<Status> work(Job job);
  Task<void> run(Job job);
  Task<void> finish(std::string id, Status result);
  Task<void> forget(std::string id);
  void release(const std::string& id);
  void note_ending(const std::string& id);
  void spawn(asio::any_io_executor executor, Job job);

  Task<Result<Job>> change(std::string id, Edit edit);
  Task<Result<bool>> write(Job next, cluster::Revision revision, std::string gone = "");
  Task<Status> fetch(std::string id);
  Task<Result<cluster::Revision>> load();
  /// Check before a new record is written: a store that has lost the cluster must stay empty until
  /// it is recovered. unavailable when it has.
  Task<Result<cluster::Revision>> cluster_revision();
  void install(const cluster::KeyValue& item) TARN_REQUIRES(mutex_);
  void remove(const std::string& id, cluster::Revision revision) TARN_REQUIRES(mutex_);

  Task<void> watch(cluster::Revision from);
  [[nodiscard]] bool is_orphan(const Held& held) const;
  Task<void> take_orphans();
  Task<void> write_progress();
  Task<void> forget_old();
  [[nodiscard]] std::string refused(const Refusal& refuse) const TARN_REQUIRES(mutex_);
  [[nodiscard]] std::vector<std::string> ending() const;

  JobsNode node_;
  Drive drive_;
  mutable Mutex mutex_;
  std::map<std::string, Held> jobs_ TARN_GUARDED_BY(mutex_);
  // All jobs that began up to here are known.
  cluster::Revision last_start_ TARN_GUARDED_BY(mutex_) = 0;
};

}  // namespace tarn::proxy
