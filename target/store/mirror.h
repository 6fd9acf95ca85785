#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "target/drive/drive.h"
#include "target/store/mirror_ledger.h"
#include "target/store/mirror_plan.h"
#include "target/store/name_locks.h"
#include "target/store/object_name.h"

namespace tarn::target {

class ObjectStore;

/// The names of buckets that are, or once were, mirrored: copies of one version on several drives
/// of this target, kept in step (docs/decisions/013). Part of the ObjectStore, which leads here the
/// names that are marked so. Thread-safe.
class Mirror {
 public:
  explicit Mirror(ObjectStore& store) : store_(store) {}

  /// At the start: what was remembered, by path the ids of the drives that are away, and where
  /// besides the drives to remember.
  void remember(MirrorLedger ledger, std::map<std::string, std::string> missing_ids,
                std::string directory);

  // As the ObjectStore's functions of these names.
  /// Holders of the newest record first. unavailable when what can be seen may be out of date.
  Task<Result<std::vector<Located>>> find_all(ObjectName name);
  /// The same, whatever is away.
  Task<Result<std::vector<Located>>> find_seen(ObjectName name);
  /// Not on the drives `except`, and unless null of this generation only.
  Task<Result<std::shared_ptr<OpenObject>>> open(ObjectName name, std::set<const Drive*> except,
                                                 const Generation* generation);
  Task<Status> publish(ObjectName name, WorkFile& file, io::ObjectAttribute attribute,
                       std::vector<std::uint32_t> checksums, cluster::Durability durability);
  Task<Status> patch(ObjectName name, io::ObjectAttribute attribute);
  Task<Status> remove(ObjectName name, io::ObjectRecord tombstone);
  /// unavailable when so many drives are away that nothing can be written.
  [[nodiscard]] Status writable(const ObjectName& name) const;
  /// True if another drive has so much less to do that a reader had better look there for a copy.
  [[nodiscard]] bool has_idler_than(const Drive& drive) const;

  /// Returns when no drive in good standing holds an older version of `name` than another: what a
  /// crash left half done is finished before any reader sees it.
  Task<Status> resolve(ObjectName name);

  /// Result of repair().
  struct Repaired {
    std::size_t added = 0;    ///< copies that were made, or made anew
    std::size_t removed = 0;  ///< copies that were too many, and older versions
    std::size_t missing = 0;  ///< copies for which there is no drive
    std::uint64_t bytes = 0;  ///< written
  };
  /// Makes `wanted` copies of the newest version, brings older ones up to date and takes away what
  /// is too much. `bad`: a drive whose copy is not what was stored, or null: it is made anew. Takes
  /// the name's lock for moments only.
  Task<Result<Repaired>> repair(ObjectName name, std::size_t wanted, const Drive* bad);

  /// A reader found a copy bad: it is made anew soon (take_bad()).
  void report_bad(const ObjectName& name, const Drive& drive);
  struct Bad {
    ObjectName name;
    const Drive* drive = nullptr;
  };
  [[nodiscard]] std::deque<Bad> take_bad();

  /// Counts whatever may leave names with other copies than wanted: a pass over all names is due
  /// when it has grown.
  [[nodiscard]] std::uint64_t disturbances() const { return disturbances_.load(); }
  void disturb() { ++disturbances_; }
  /// Drives that are stale, for names with copies or without, and can be used, by id.
  [[nodiscard]] std::set<std::string> stale() const;
  /// Number of copies that every name of a bucket has here at least, on drives that are there or
  /// away; at most `copies`. 0: that is not known.
  [[nodiscard]] std::size_t surely(BucketId bucket, std::uint8_t copies) const;
  /// True if so few drives are away that each name of the bucket, if it exists here, is seen.
  [[nodiscard]] bool has_full_view(BucketId bucket, std::uint8_t copies) const;
  /// Saves what remember() has concluded. Called once, at the start.
  Task<Status> save_remembered();
  /// A pass found that many copies of all names, with every drive there, and nothing has changed
  /// since `disturbances` were counted: durably noted. Does nothing otherwise.
  Task<Status> complete(std::map<BucketId, std::uint8_t> copies, std::uint64_t disturbances);
  /// Standing of a drive for names with copies.
  [[nodiscard]] Standing standing(const Drive& drive) const;
  /// True if other drives may have newer versions of names without copies than `drive`.
  [[nodiscard]] bool stale_single(const Drive& drive) const;
  /// True if the newest version of a name that lives on `place`, and has no copies on drives, may
  /// lie on another drive alone: `place` is stale, or some of its names are misplaced.
  [[nodiscard]] bool may_be_misplaced(const Drive& place) const;
  /// True if that is noted of names which live on the drive at `path`, which is missing.
  [[nodiscard]] bool are_misplaced(const std::string& path) const;
  /// Notes durably that names which live on the drive at `path` are misplaced. Called before such a
  /// name is stored on another drive, which is marked (Drive::expect_misplaced) before the call.
  /// Returns at once when it is noted already.
  Task<Status> misplaces(std::string path);
  /// The same for all drives, there or not: names live elsewhere from here on. Called before that.
  Task<Status> misplaces_all();
  /// Number of calls of the two.
  [[nodiscard]] std::uint64_t misplacings() const { return misplacings_.load(); }
  /// Notes durably that no name is misplaced. Does so when all drives are in service, none may hold
  /// what belongs elsewhere, and nothing has been misplaced since `misplacings` were counted.
  Task<Status> all_in_place(std::uint64_t misplacings);
  /// True if any drive, there or not, is stale.
  [[nodiscard]] bool any_stale() const;
  /// These have caught up with everything: durably noted.
  Task<Status> caught_up(std::set<std::string> drives);
  /// Names that change without a drive.
  struct Misses {
    bool with_copies = true;
    bool single = false;    ///< names without copies, of which it holds some
    bool for_good = false;  ///< its files no longer count as copies
  };
  /// Notes that a drive is put into the set, or taken out of it or of service. From here on it is
  /// stale, since names change without it, and what it remembers of other drives counts. Call
  /// before. A drive that comes becomes the place of names: they are misplaced, as after
  /// misplaces_all().
  Task<Status> comes(Drive& drive, MirrorLedger remembered, Misses misses);
  Task<Status> goes(std::string path, Misses misses);
  /// Before one that was lost, and not given up, is put back into the set: what changed without it
  /// has been noted when it did.
  Task<Status> returns(Drive& drive, MirrorLedger remembered);
  /// Before the store loses a drive: by whose id it is noted, from then on, that names change
  /// without the one at this path.
  void loses(const Drive& drive);
  /// Before names of these buckets live elsewhere than on drives that are away: notes durably, in
  /// the target's directory too, that what they hold of them counts as evicted. After an error it
  /// may have been noted or not; evicted() returns it in any case.
  Task<Status> note_evicted(EvictedDrives more);
  /// Buckets known to have been evicted from a drive, by its id, while it was away.
  [[nodiscard]] EvictedBuckets evicted(const std::string& drive) const;
  /// Before such a drive is put into the set, without what was evicted: forgets that, durably.
  Task<Status> forget_evicted(std::string drive);
  /// True if a drive in service other than `drive` holds this version of `name`, or a newer one.
  Task<Result<bool>> is_elsewhere(ObjectName name, const Drive& drive, Generation generation);

 private:
  /// Answers of all drives on a name, in the order of placement. The set of drives may be another
  /// one in the next survey, and so may the order.
  struct Survey {
    std::vector<Drive*> drives;  ///< null: missing
    /// Position of a drive; nothing when it does not belong to the target any more.
    [[nodiscard]] std::optional<std::size_t> place_of(const Drive& drive) const;
    std::vector<std::string> ids;
    CopyViews views;
    std::vector<std::optional<io::ObjectRecord>> records;  ///< of disabled drives, too
    CopyVerdict verdict;
  };
  enum class Patience : std::uint8_t { reader, writer };
  Task<Survey> survey(const ObjectName& name, Patience patience);
  Task<Status> note_stale(std::set<std::string> drives);
  Task<Status> note(MirrorLedger more, Drive* comes = nullptr);
  Task<Status> note_misplaced(std::set<std::string> drives);
  /// Ids of all drives, there or not.
  [[nodiscard]] std::set<std::string> all_ids() const;
  Task<Status> note_fewer(BucketId bucket, std::size_t copies);
  Task<Status> note_fewer_everywhere(Drive* comes = nullptr);
  /// `comes`: a further drive that shall know. `needs_directory`: an error when it is not noted in
  /// the target's directory.
  Task<Status> save_ledger(MirrorLedger ledger, Drive* comes = nullptr,
                           bool needs_directory = false);
  /// Empty: not known.
  [[nodiscard]] std::string id_of_missing(const std::string& path) const;
  [[nodiscard]] MirrorLedger ledger() const;
  Task<Status> note_away(const Survey& survey);
  Task<void> wait_for_commit(const ObjectName& name);
  [[nodiscard]] bool is_pending(const Survey& survey) const;

  /// One copy on its way: its file, and what it will be.
  struct Prepared {
    Drive* drive = nullptr;
    WorkFile* file = nullptr;
    Drive::Publication publication;
  };
  Task<Result<std::unique_ptr<WorkFile>>> copy_work_file(WorkFile& from, Drive& to,
                                                         const io::ObjectRecord& record,
                                                         const std::vector<std::uint32_t>& sums);
  Task<std::vector<std::unique_ptr<WorkFile>>> make_copies(ObjectName name, WorkFile& first,
                                                           const io::ObjectRecord& record,
                                                           const std::vector<std::uint32_t>& sums,
                                                           std::size_t count,
                                                           const std::set<const Drive*>& except);
  Task<Status> prepare_all(std::vector<Prepared>& copies);
  Task<Status> commit_all(const ObjectName& name, std::vector<Prepared>& copies,
                          const Survey& before, WorkFile& first, std::size_t required);

  Task<Result<bool>> bring_up(const ObjectName& name, const Survey& survey, std::size_t to,
                              const Drive* bad, Repaired& done);
  Task<Result<bool>> remove_all(const ObjectName& name, const Survey& survey, std::size_t from,
                                Repaired& done);
  Task<Result<bool>> delete_older(const ObjectName& name, Repaired& done);

  ObjectStore& store_;
  NameLocks committing_;  // a name from the first record of a change to its last
  NameLocks ledger_lock_;
  std::atomic<std::uint64_t> disturbances_{1};
  std::atomic<std::uint64_t> misplacings_{0};
  std::map<std::string, std::string> missing_ids_ TARN_GUARDED_BY(mutex_);  // path -> uuid
  std::string directory_;  // of the node, where the ledger is written, too
  mutable Mutex mutex_;
  MirrorLedger ledger_ TARN_GUARDED_BY(mutex_);
  std::deque<Bad> bad_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
