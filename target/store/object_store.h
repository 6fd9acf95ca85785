#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/base/snapshot.h"
#include "common/cluster/place/hrw.h"
#include "common/cluster/state/state.h"
#include "target/drive/drive.h"
#include "target/store/mirror.h"
#include "target/store/name_locks.h"
#include "target/store/object_name.h"
#include "target/store/open_objects.h"
#include "target/store/slices_here.h"

namespace tarn::target {

/// The drives of a target as one store: which drive a name lives on, and where else it may lie. A
/// name's place is the first drive in HRW order. The order has all drives that the target has ever
/// had and not given up, there or not. Left out are drives that are being emptied, and those that
/// the name's bucket was evicted from while they are away. Full drives pass new files on in that
/// order. Thread-safe.
class ObjectStore {
 public:
  /// `missing`: path -> why, as DrivePlan has it.
  ObjectStore(std::vector<std::unique_ptr<Drive>> drives,
              std::map<std::string, std::string> missing);

  /// As they are now. A drive that is detached meanwhile stays a Drive, which refuses everything.
  [[nodiscard]] std::vector<std::shared_ptr<Drive>> drives() const { return set_.get()->drives; }
  /// Path -> why: known drives that are not there.
  [[nodiscard]] std::map<std::string, std::string> missing() const { return set_.get()->missing; }
  struct Placed {
    cluster::Candidate candidate;
    std::shared_ptr<Drive> drive;  ///< null: it is not there
  };
  /// All drives, there or not, as names are placed among them.
  [[nodiscard]] std::vector<Placed> placed_drives() const;
  /// The drive at a path; null when there is none in the set.
  [[nodiscard]] std::shared_ptr<Drive> drive_at(const std::string& path) const;
  /// Puts a drive into the set. New requests see it; those under way go on with the set that they
  /// began with. One caller at a time, as of detach().
  void attach(std::shared_ptr<Drive> drive);
  /// Takes one out of the set, and lets go of what is open of it without a reader.
  void detach(const Drive& drive);
  /// The same for one that may come back, with attach(): until then it is missing, and places stay
  /// where they are. One caller at a time, as of attach().
  void lose(const Drive& drive, std::string why);
  /// From here on a drive of the set is no name's place and takes no new files, or is and does
  /// again (Drive::draining). One caller at a time, as of attach().
  void set_draining(Drive& drive, bool draining);
  /// True if a drive is in the set, or in a former one that a caller still uses. Thread-safe.
  [[nodiscard]] bool may_be_asked(const Drive& drive) const;
  /// Notes why one that is missing still is.
  void note_missing(const std::string& path, std::string why);
  /// Counts what a missing drive holds of these buckets as evicted from here on: their names live
  /// on the next drive, until this one is in the set again (docs/decisions/025). It has
  /// been noted durably (Mirror::note_evicted).
  void set_evicted(const std::string& path, EvictedBuckets buckets);
  [[nodiscard]] EvictedBuckets evicted_from(const std::string& path) const;
  /// Number of calls of set_evicted(): what was begun before may be of an older version.
  [[nodiscard]] std::uint64_t evictions() const { return evictions_.load(); }
  /// Takes away what drives that are there hold of a bucket, of names for which one of the missing
  /// drives at `paths` comes before them: it may have had a newer version. unavailable when one of
  /// them cannot be looked through now.
  Task<Status> forget_stale(std::set<std::string> paths, cluster::BucketRecord bucket);
  /// Forgets that a drive is missing.
  void forget_missing(const std::string& path);
  /// Closes what is open of a drive without a reader.
  void close_idle(const Drive& drive) { open_.forget_drive(drive); }
  [[nodiscard]] NameLocks& locks() { return locks_; }
  /// True if a name may lie on another drive than its place: then what one drive has of it may be
  /// stale.
  [[nodiscard]] bool may_hold_misplaced() const;
  /// Marks all drives as may_hold_misplaced().
  void expect_misplaced();
  /// Notes durably that a name, one without copies on drives, is about to lie on another drive than
  /// its place (Mirror::misplaces). The other drive is marked before.
  Task<Status> note_misplaced(const ObjectName& name);

  /// Part of the store for mirrored buckets.
  [[nodiscard]] Mirror& mirror() { return mirror_; }

  /// Slices of objects whose records may lie on other targets.
  [[nodiscard]] SlicesHere& slices() { return slices_; }

  /// The drive where a name lives by placement; null when that is away.
  [[nodiscard]] Drive* drive_for(std::string_view uname) const;
  /// The same, or the next drive where what is away was evicted.
  [[nodiscard]] Drive* drive_for(const ObjectName& name) const;
  /// unavailable when a name of which the drives that are there show nothing may lie on one that is
  /// away. Of a name that can be fetched again, only if its place is away, or it may be misplaced.
  [[nodiscard]] Status check_not_away(const ObjectName& name) const;
  /// unavailable when the drive where `name` lives is away or out; of a mirrored name, when too
  /// many are.
  [[nodiscard]] Status reachable(const ObjectName& name) const;
  /// All records of a name, tombstones included, the newest first. unavailable when a drive that
  /// may hold one does not answer.
  Task<Result<std::vector<Located>>> find_all(ObjectName name);
  /// The same for a write that overwrites whatever there is: of a mirrored name, what can be seen.
  Task<Result<std::vector<Located>>> find_seen(ObjectName name);
  /// The newest version, when it is open already and its drive can be asked; else null: then
  /// open_object() knows. Never waits.
  [[nodiscard]] std::shared_ptr<OpenObject> find_open(const ObjectName& name);
  /// The newest version with its file open; null when there is none. unavailable rather than null
  /// when a drive that may hold one is away.
  Task<Result<std::shared_ptr<OpenObject>>> open_object(ObjectName name);
  /// The newest record; nothing for none and for a tombstone. Errors as open_object.
  Task<Result<std::optional<io::ObjectRecord>>> find(ObjectName name);

  /// A new file on the drive where `name` belongs, or the next one that has room. no_space when
  /// none has.
  Task<Result<std::unique_ptr<WorkFile>>> create(ObjectName name,
                                                 std::optional<std::uint64_t> length);
  /// The drive that a work file is on decides where the object lies; all other records of the name,
  /// from find_all, are removed once it is published. The caller holds the name's lock.
  Task<Status> publish(ObjectName name, WorkFile& file, io::ObjectAttribute attribute,
                       std::vector<std::uint32_t> checksums, std::vector<Located> others,
                       cluster::Durability durability);
  /// Replaces the metadata of `name` on `drive`, which holds it, as Drive::patch does; of a
  /// mirrored name, on all that hold it. The caller holds the name's lock.
  Task<Status> patch(ObjectName name, Drive& drive, io::ObjectAttribute attribute);
  /// Durably deletes all of `present` (from find_all, under the lock). When that is nothing, the
  /// tombstone goes to the drive where the name belongs.
  Task<Status> remove(ObjectName name, std::vector<Located> present, io::ObjectRecord tombstone);
  /// Durably takes away all of `present` without leaving a tombstone: other targets have the name
  /// now. The caller holds the name's lock.
  Task<Status> forget(ObjectName name, std::vector<Located> present);

  /// Sets how full drives may get, from now on. Any thread.
  void set_space_limits(const SpaceLimits& limits);
  [[nodiscard]] SpaceLimits space_limits() const { return *space_limits_.get(); }

  /// Removes what a destroyed bucket left, in the background.
  void forget_bucket(BucketId bucket);

  struct Listed {
    std::string name;
    io::ObjectRecord record;
    const Drive* drive = nullptr;  ///< drive that holds it; null for a virtual directory
    std::uint32_t copies = 1;      ///< drives that hold this version
  };
  struct Page {
    std::vector<Listed> entries;  ///< live objects; names that end in '/' are virtual directories
    bool more = false;
  };
  /// Record to show instead of the newest one of a name, also of a deleted one: another, that one,
  /// or null for nothing. Called on threads of drives.
  using InPlaceOf =
      std::function<const io::ObjectRecord*(std::string_view name, const io::ObjectRecord& newest)>;
  /// Names greater than `after` that begin with `prefix`, in byte order, at most `limit`. With
  /// `by_directory`, names with a further '/' are folded into one entry "dir/". Never
  /// short: unavailable when any drive is away of whose names other drives may not have copies, and
  /// which cannot be fetched again.
  Task<Result<Page>> list(BucketOnDrives bucket, std::string prefix, std::string after,
                          std::size_t limit, bool by_directory, InPlaceOf in_place_of = {});
  /// unavailable when a list of what the drives that are there hold of the bucket would be short.
  [[nodiscard]] Status lists_all(const BucketOnDrives& bucket) const;

 private:
  Task<Status> remove_all(ObjectName name, std::vector<Located> present, io::ObjectRecord tombstone,
                          bool keep_tombstone);
  /// The drives at one moment.
  struct DriveSet {
    std::vector<std::shared_ptr<Drive>> drives;
    std::map<std::string, std::string> missing;     // path -> why
    std::map<std::string, EvictedBuckets> evicted;  // of missing drives, by path
    std::vector<DrivePlace> places;                 // of drives, then of missing
    std::vector<cluster::Candidate> candidates;     // of places

    /// Indexes into places, best first.
    [[nodiscard]] std::vector<std::size_t> order(const ObjectName& name) const;
    /// The first of these places that the name was not evicted from; none when it was from all.
    [[nodiscard]] std::optional<std::size_t> place_for(const ObjectName& name,
                                                       const std::vector<std::size_t>& order) const;
    [[nodiscard]] Result<Drive*> drive_for(const ObjectName& name,
                                           const std::vector<std::size_t>& order) const;
    /// True of a drive that is missing, and from which the bucket of the name was evicted.
    [[nodiscard]] bool is_evicted(std::size_t place, const ObjectName& name) const;
    [[nodiscard]] bool all_evicted(const ObjectName& name) const;
    [[nodiscard]] bool may_hold_misplaced() const;
  };
  [[nodiscard]] Status check_not_away(const DriveSet& set, const ObjectName& name) const;
  [[nodiscard]] bool may_be_misplaced(const DriveSet& set,
                                      const std::vector<std::size_t>& by_rank) const;
  void replace_set(std::shared_ptr<const DriveSet> next);
  /// `before`: what the sizes of drives are that no other one knows.
  /// `evicted`: of drives that are not missing it counts for nothing.
  static std::shared_ptr<const DriveSet> make_set(std::vector<std::shared_ptr<Drive>> drives,
                                                  std::map<std::string, std::string> missing,
                                                  std::map<std::string, EvictedBuckets> evicted,
                                                  const std::vector<DrivePlace>& before);
  void take_from_set(const Drive& drive, std::map<std::string, std::string> missing);
  Task<Result<Page>> list_once(const BucketOnDrives& bucket, const std::string& prefix,
                               const std::string& after, std::size_t limit, std::string& next,
                               const InPlaceOf& in_place_of);

  Snapshot<DriveSet> set_;
  mutable Mutex former_mutex_;
  // Sets that set_ was.
  std::vector<std::weak_ptr<const DriveSet>> former_ TARN_GUARDED_BY(former_mutex_);
  std::vector<std::shared_ptr<Drive>> detached_;  // requests from before may still ask them
  Snapshot<SpaceLimits> space_limits_;
  std::atomic<std::uint64_t> evictions_{0};
  NameLocks locks_;
  friend class Mirror;
  Mirror mirror_{*this};
  SlicesHere slices_{*this};
  OpenObjects open_;  // after the drives: it closes files on their threads
};

}  // namespace tarn::target
