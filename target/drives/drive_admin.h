#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/cluster/state/cluster_view.h"
#include "common/io/drive_threads.h"
#include "common/io/mount_watch.h"
#include "target/drives/drive_list.h"
#include "target/drives/open_drives.h"
#include "target/drives/return_budget.h"
#include "target/node/node.h"
#include "target/store/object_store.h"

namespace tarn::target {

/// Changes the set of drives while the target runs: one change at a time (a second one waits, and
/// is a conflict after 10 s), each kept over restarts before it is acted upon. Requests under way
/// are not disturbed. Methods run on event loops; everything that blocks runs on a thread of its
/// own. All arguments outlive it.
class DriveAdmin {
 public:
  /// `in_service` is called, on the caller's loop, for each drive that came into the set, to look
  /// after it. `changed` is called after each change of the set. `other_set` (DriveList::drive_set)
  /// is called before requests see a change after which this target may lack something.
  struct Hooks {
    std::function<void(std::shared_ptr<Drive>)> in_service;
    std::function<void()> changed;
    std::function<void(std::uint64_t)> other_set;
  };
  /// `ids`: OpenedDrives::missing_ids. `evict_after`: how long a drive is missing before what
  /// upstream has of it is evicted; no mark of a write that lies on it is open then.
  DriveAdmin(TargetNode& node, const Clock& clock, DriveOpener opener, DriveList list,
             OpenedDrives::Identities identities, const std::map<std::string, std::string>& ids,
             std::chrono::nanoseconds evict_after, Hooks hooks);

  /// Takes a drive into service: an empty one, or one that was a drive of this target. Its checks
  /// are those of the start. not_found when there is no such directory, invalid_argument when it is
  /// in use. conflict for a drive that may not be attached, as for one that was away for too long.
  /// `label`: what the operator calls it from now on, or empty; it is forgotten with a detach. Of
  /// one that is to leave: it stays. `moves`, here and for enable(): a resilver is requested.
  Task<Status> attach(std::string path, std::string label, bool moves);
  /// Takes it out of the set. Objects on it that no other drive in service has move to other drives
  /// first: then it answers at once, and the drive goes when it is empty (tend_leaving()). With
  /// `give_up` they no longer exist for the cluster until it is attached again. conflict for the
  /// last drive, one that is away or disabled and holds objects; no_space when the other drives
  /// have too little. A drive that goes at once is seen by no new request when this answers; it is
  /// closed when the last reader is done.
  Task<Status> detach(std::string path, bool give_up);
  /// Out of service until enable(), and emptied before as by detach(). With `force` its objects
  /// answer 503, new ones go to the other drives.
  Task<Status> disable(std::string path, bool force);
  Task<Status> enable(std::string path, bool moves);
  /// Looks whether the drive is there and answers. invalid_argument for a path that is no drive.
  Task<Status> examine(std::string path);

  /// Paths that were detached and are not closed yet: requests still read there. Thread-safe.
  [[nodiscard]] std::set<std::string> leaving() const;
  /// Labels by path, of drives that have one. Thread-safe.
  [[nodiscard]] std::map<std::string, std::string> labels() const;
  /// Closes drives that were detached, once they are quiescent. Now and then, on one loop.
  Task<void> close_detached();
  /// Detaches or disables drives that were to be emptied, and are. Now and then, on one loop.
  Task<void> tend_leaving();
  /// Lets go of drives that are out, so that they can be unmounted, and takes back into service
  /// those that are there again (docs/decisions/020). From those that stay away it evicts what
  /// upstream has (docs/decisions/025). Once a second, on one loop.
  Task<void> tend_away();
  /// No drive is disabled, and none was detached that may be attached again as it is. Thread-safe.
  [[nodiscard]] bool all_in_service() const;
  /// The paths of all drives that are to be used at the next start.
  [[nodiscard]] std::vector<std::string> paths() const;

 private:
  static constexpr std::string_view kSayItAgain =
      "with dntres=true (tarn drive --force, ais --no-resilver) it is done all the same";
  /// The right to change the set of drives, until its end.
  class Turn {
   public:
    explicit Turn(std::atomic<bool>& busy) : busy_(busy.exchange(true) ? nullptr : &busy) {}
    ~Turn() {
      if (busy_ != nullptr) *busy_ = false;
    }
    Turn(Turn&& other) noexcept : busy_(std::exchange(other.busy_, nullptr)) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    Turn& operator=(Turn&&) = delete;
    [[nodiscard]] Status got() const {
      if (busy_ != nullptr) return {};
      return fail(Errc::conflict,
                  "the drives of this target are being changed already: wait for that");
    }

   private:
    std::atomic<bool>* busy_;  ///< null: another one has the right
  };
  /// Right to make a change for an operator's order. Waits while another change is made, which the
  /// target may make by itself.
  Task<Result<Turn>> take_turn();
  /// Objects on a drive that no other drive has, and slices of objects.
  struct Held {
    std::uint64_t objects = 0;
    std::uint64_t slices = 0;
    std::uint64_t bytes = 0;   ///< of the files of both
    std::uint64_t single = 0;  ///< of `objects`, those of buckets that want no copies on drives
  };
  [[nodiscard]] Result<std::shared_ptr<Drive>> find(const std::string& path) const;
  /// Keeps the list durably, and announces its drive_set.
  Task<Status> save(DriveList list);
  /// Without announcing it.
  Task<Status> keep_list(DriveList list);
  Task<Result<Held>> count(Drive& drive);
  Task<Status> count_slices(Drive& drive, BucketId bucket, Held& held);
  Task<Status> count_spread(Drive& drive, const cluster::BucketRecord& bucket, Held& held);
  [[nodiscard]] bool any_mirrored() const;
  void note_change(DriveList& list) const;
  Task<Result<bool>> empty_first(Drive& drive, DriveList::Then then);
  Task<Status> leave(Drive& drive, DriveList::Then then, Held held);
  Task<Status> stay(Drive& drive);
  Task<Status> set_draining(Drive& drive, bool draining);
  Task<Status> go_if_empty(std::shared_ptr<Drive> drive, DriveList::Then then);
  Task<Status> take_out(std::string path, std::shared_ptr<Drive> drive, bool holds_some);
  Task<Status> put_out(Drive& drive, bool holds_some, bool emptied);
  [[nodiscard]] DriveList list() const;
  [[nodiscard]] bool others_serve(const std::string& path) const;
  Task<Status> wait_for_uploads(Drive& drive);
  Task<Status> wait_until_closed(std::string path);
  struct Opened {
    std::shared_ptr<Drive> drive;
    MirrorLedger remembered;  ///< its notes of other drives
  };
  [[nodiscard]] std::int64_t oldest_tombstone() const;
  Status check_not_fenced(const FoundDrive& found) const;
  using Siblings = std::map<std::string, DrivePlace>;
  /// A drive that is missing and may come back by itself.
  struct Away {
    std::string id;
    std::shared_ptr<Drive> before = {};  ///< as it was; null: it has not been here since the start
    /// True if it failed: before its mount has ended, memory may have what the drive has not.
    bool waits = false;
    std::optional<io::MountWatch> watch;  ///< of one that waits; nothing: the kernel took none
    BootTime since{};                     ///< time when it was found missing
    std::string why;                      ///< reason why it is
    std::string said;                     ///< reason why it is not taken back, as it was logged
  };
  Task<Status> enters(std::shared_ptr<Drive> drive, const cluster::ClusterState& seen);
  [[nodiscard]] Siblings siblings() const;
  [[nodiscard]] bool is_closing(const std::string& path) const;
  Task<Status> let_go(std::shared_ptr<Drive> drive);
  Task<Status> take_back(std::string path, std::shared_ptr<Away> away);
  Task<Result<bool>> is_back(std::string path, Away& away);
  Task<void> look_for(std::string path, std::shared_ptr<Away> away);
  void note_missing(const std::string& path, const Away& away);
  /// A bucket that is to be evicted, and the missing drives that it is to be evicted from.
  struct Evictable {
    cluster::BucketRecord bucket;
    std::set<std::string> paths;
  };
  [[nodiscard]] std::vector<Evictable> evictable() const;
  [[nodiscard]] bool stays_away(const std::string& path) const;
  [[nodiscard]] bool may_evict() const;
  Task<void> evict_away();
  Task<Status> evict(std::vector<Evictable> wanted);
  Result<Opened> open_now(const std::string& path, const cluster::ClusterState& state);
  void write_identities(const Siblings& siblings);

  TargetNode& node_;
  ObjectStore& store_;
  cluster::ClusterView& view_;
  const Clock& clock_;
  const DriveOpener opener_;
  const std::chrono::nanoseconds evict_after_;
  const Hooks hooks_;
  io::DriveThreads threads_{"drives", 1, 16};
  std::atomic<bool> busy_{false};
  BootTime evict_again_{};        // of evict_away()
  std::uint64_t walks_seen_ = 0;  // of tend_leaving()
  BootTime look_again_{0};
  ReturnBudget returns_;  // of tend_away()
  mutable Mutex mutex_;
  DriveList list_ TARN_GUARDED_BY(mutex_);
  std::map<std::string, DriveIdentity> identities_ TARN_GUARDED_BY(mutex_);  // by path
  // All that are or were there, and are not given up.
  Siblings siblings_ TARN_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Drive>> leaving_ TARN_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Drive>> lost_ TARN_GUARDED_BY(mutex_);  // are out, and not closed yet
  // Missing drives by path; only tend_away() uses what they hold.
  std::map<std::string, std::shared_ptr<Away>> away_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
