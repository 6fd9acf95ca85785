#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/event.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/cluster/state/state.h"
#include "common/io/drive_kind.h"
#include "common/io/drive_threads.h"
#include "common/io/file_system.h"
#include "common/io/mount_info.h"
#include "common/io/mount_watch.h"
#include "common/io/object_attribute.h"
#include "target/drive/access_times.h"
#include "target/drive/cache_policy.h"
#include "target/drive/drive_clean.h"
#include "target/drive/drive_places.h"
#include "target/drive/drive_state.h"
#include "target/drive/followed_file.h"
#include "target/drive/hang_watch.h"
#include "target/drive/head_turns.h"
#include "target/drive/index.h"
#include "target/drive/misplaced_mark.h"
#include "target/drive/open_object.h"
#include "target/drive/recovery.h"
#include "target/drive/verified_files.h"
#include "target/drive/work_file.h"

namespace tarn::target {

struct DriveIdentity;

/// Limits of how full a drive may get. Percentages of the file system.
struct SpaceLimits {
  double reserve_percent = 1;       ///< never touched by data: the index needs room to live
  std::uint64_t reserve_bytes = 0;  ///< instead of the percentage, when not 0
  double low_watermark = 75;        ///< eviction ends here, or at the high one if that is lower
  double high_watermark = 90;       ///< above: new files go to the next drive, eviction begins
  double out_of_space = 95;         ///< above: no new files at all
};

/// One drive of a target: files, index, threads (docs/architecture.md). The functions that return a
/// Task hop to the drive's threads and back; the event loop never waits for the drive. Thread-safe.
class Drive {
 public:
  struct Options {
    std::string path;
    std::string id;  ///< uuid of the drive
    std::size_t threads = 8;
    SpaceLimits space;
    bool may_hold_misplaced = false;
    /// All drives of the target, there or not: placement among them. Empty: this one alone.
    std::vector<DrivePlace> places;
    std::set<BucketId> dead_buckets;
    EvictedBuckets evicted;
    /// The names by which live buckets are placed (BucketRecord::placed_as): they decide where an
    /// object belongs that the index knows.
    std::map<BucketId, api::Bucket> buckets;
    /// Buckets whose objects may lie on any drive, since they are or were mirrored.
    std::set<BucketId> spread_buckets;
    /// Kind of the drive: rotational ones are read in long turns; nothing: as the kernel reports.
    std::optional<io::DriveKind> kind;
    /// A drive that has done nothing for so long, while work waits for it, hangs.
    std::chrono::seconds hang_after = HangWatch::kHangAfter;
    /// Shared by all drives of the target; null: one of its own.
    std::shared_ptr<CachePolicy> cache_policy;
    /// The file system to use (tests); null: that of the drive.
    std::unique_ptr<io::FileSystem> files;
  };
  /// Opens the index and reconciles it with the files. Blocking: not from an event loop.
  [[nodiscard]] static Result<std::unique_ptr<Drive>> open(Options options,
                                                           const IndexMemory& memory);
  ~Drive();

  [[nodiscard]] const std::string& path() const { return options_.path; }
  [[nodiscard]] const std::string& id() const { return options_.id; }
  /// All drives of the target, this one included, as far as they were known when it was opened.
  [[nodiscard]] const std::vector<DrivePlace>& places() const { return options_.places; }
  [[nodiscard]] const RecoveryReport& recovery() const { return recovery_; }
  /// Mount of the drive when it was opened; empty where that could not be found out.
  [[nodiscard]] const io::MountInfo& mount() const { return mount_; }
  /// True if records may lie here whose place is another drive (misplaced, or a changed drive set).
  [[nodiscard]] bool may_hold_misplaced() const { return misplaced_.is_set(); }
  /// Sets may_hold_misplaced(), and keeps it set as long as what is returned lives.
  [[nodiscard]] std::unique_ptr<MisplacedMark::Coming> misplaced_comes() {
    return std::make_unique<MisplacedMark::Coming>(misplaced_);
  }
  /// True if a record belongs on this drive; false also when that is not known.
  using Belongs = std::function<bool(BucketId bucket, std::string_view name)>;
  /// Looks at every record, tombstones too. When all belong here, and none that does not came
  /// meanwhile, may_hold_misplaced() is false from then on, also after a restart. Returns true if
  /// it is false.
  Task<Result<bool>> clear_misplaced_mark(Belongs belongs);

  /// The worst that is true of the drive now.
  [[nodiscard]] DriveState state() const;
  /// unavailable with the reason once the drive hangs or is out: it answers nothing
  /// (DriveRules::answers).
  [[nodiscard]] Status usable() const;
  /// unavailable when work has waited for the drive's threads for more than two seconds: a caller
  /// that asks for something new comes again later, so that what waits is still wanted when it is
  /// done.
  [[nodiscard]] Status not_overloaded() const;
  /// Takes the drive out: no further write, no further read. `vanished`: its path no longer leads
  /// to it, and nothing else is wrong.
  void take_out(const std::string& why, bool vanished = false);
  /// `event` rings at each change of usable().
  void ring_on_health(std::shared_ptr<Event> event);
  /// True if it is out, which a drive that merely hangs is not.
  [[nodiscard]] bool is_lost() const { return !not_taken_out(); }
  /// True if it is out because its path no longer leads to it.
  [[nodiscard]] bool vanished() const;
  /// Watches the mount of its file system, whatever its path leads to by now. Blocks for a moment,
  /// not on the drive.
  [[nodiscard]] Result<io::MountWatch> watch_mount() const {
    return io::MountWatch::of(files_->pinned_root());
  }
  /// True if an operator has put the drive out of service: what lies here is kept and its index
  /// answers, but it takes no new files and ObjectStore reads none.
  [[nodiscard]] bool disabled() const { return disabled_.load(std::memory_order_relaxed); }
  void set_disabled(bool disabled) { disabled_ = disabled; }
  /// True if new files may come. create() asks again when an upload has been counted (uploads()):
  /// then either it sees that the drive closes, or the caller that closes it sees the upload.
  [[nodiscard]] bool takes_files() const {
    return !closing_.load() && rules_of(state()).takes_files;
  }
  /// True if all that lies here is to move to the other drives: it still serves what it has, takes
  /// no new files, and is no place of names (ObjectStore::set_draining).
  [[nodiscard]] bool draining() const { return draining_.load(std::memory_order_relaxed); }
  void set_draining(bool draining) { draining_ = draining; }
  /// True if what lies there is read.
  [[nodiscard]] bool in_service() const { return rules_of(state()).is_read; }
  /// Lets no new files come as long as it lives; all else goes on.
  class [[nodiscard]] Closing {
   public:
    explicit Closing(Drive& drive) : drive_(drive) { drive_.closing_ = true; }
    ~Closing() { drive_.closing_ = false; }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;

   private:
    Drive& drive_;
  };
  /// The set of drives has changed: from now on records may lie here whose place is another one.
  void expect_misplaced();
  /// Unpublished files that are being written, and objects that are open.
  [[nodiscard]] std::size_t uploads() const { return uploads_.load(); }
  [[nodiscard]] std::size_t open_objects() const { return open_objects_.load(); }
  /// Closes index and file system for good, when there is neither, so that it can be unmounted. All
  /// that is asked of it later is unavailable. timeout when it is not quiescent after `seconds`;
  /// then the same may be tried again. Blocks; not from an event loop.
  Status close(double seconds);
  /// True if a write failed here within the last minute: new files go to the next drive, if there
  /// is one. The third such failure within a minute takes the drive out.
  [[nodiscard]] bool suspect() const;
  /// Looks whether the drive is still there and answers. On the drive's threads; once a second.
  Task<Status> probe();
  /// Looks, without waiting for the drive, whether it hangs: it has done nothing for ten seconds
  /// while work was waiting for it. Then it is out, and work that waits in its queue is refused. It
  /// is in again once all its work has ended and a file can be written and synced. Once a second,
  /// from one event loop.
  void watch();
  [[nodiscard]] bool hangs() const;
  /// True if it is slow (DriveState::slow): readers take what they need from elsewhere, where that
  /// is possible.
  [[nodiscard]] bool is_slow() const { return slow_.load(std::memory_order_relaxed); }
  void set_slow(bool slow) { slow_ = slow; }
  /// Seconds for which the oldest call to the drive has been under way; 0 when none is.
  [[nodiscard]] double longest_call() const { return threads_->longest_run(); }
  [[nodiscard]] io::Space space() const;
  [[nodiscard]] double used_percent() const;
  /// Asks the file system how full it is now. On the drive's threads.
  Task<Result<io::Space>> measure_space();
  /// From now on new files are made within these limits.
  void set_space_limits(const SpaceLimits& limits);

  // Writing an object: create, write..., publish.

  /// A new file with room for `length` bytes, if that is known. no_space when the limits forbid it,
  /// unavailable when it takes none: what were stored would go with it. `above_watermark`: true if
  /// the high watermark may be passed.
  Task<Result<std::unique_ptr<WorkFile>>> create(std::optional<std::uint64_t> length,
                                                 bool above_watermark);
  /// Writes in the background; `bytes` must stay until the result is there.
  io::DriveThreads::Pending<Status> write(WorkFile& file, std::span<const std::byte> bytes,
                                          std::uint64_t offset);
  /// Waits, on a rotational drive, while more of the file is in memory than it takes turns to bring
  /// to the drive (target/drive/write_behind.h).
  Task<Status> room(WorkFile& file);
  /// Brings part of a file from memory to the drive. Blocking, on the drive's threads.
  Status write_back(int fd, std::uint64_t offset, std::uint64_t bytes);
  /// Data with which publish() makes a work file an object.
  struct Publication {
    io::ObjectAttribute attribute;
    std::vector<std::uint32_t> checksums;  ///< CRC32C of every MiB
    std::optional<io::ObjectRecord> old;   ///< the record on this drive that it replaces
    bool misplaced = false;                ///< the name's place is another drive
    cluster::Durability durability = cluster::Durability::full;
  };
  /// Makes `file` the object that `publication` describes: on stable storage when it returns (the
  /// order is in publish.cc), or soon after, as its durability allows. The caller holds the name's
  /// lock.
  Task<Status> publish(WorkFile& file, Publication publication);
  // The same in two steps, for a version that shall lie on several drives (docs/decisions/013).

  /// All of it but the record: durable, seen by no reader, and adopted by a start. When it fails
  /// nothing is left but what a start removes.
  Task<Status> prepare(WorkFile& file, const Publication& publication);
  /// The record of a prepared file.
  Task<Status> commit_prepared(WorkFile& file, const Publication& publication);
  /// Takes a prepared file back.
  Task<void> drop_prepared(WorkFile& file);
  /// Attribute of an object's file.
  Task<Result<io::ObjectAttribute>> attribute_of(std::shared_ptr<OpenObject> object);
  /// Writes .tarn/mirror.json and, unless empty, the same into a directory that is no drive.
  Task<Status> save_mirror_ledger(std::string json, std::string also);

  /// Takes a name away, durably: tombstone, unlink, directory. `tombstone` false: the record is
  /// merely erased (a leftover of a name that lives on another drive now).
  Task<Status> remove(BucketId bucket, std::string name, io::ObjectRecord tombstone,
                      bool keep_tombstone);

  /// Returns when the bytes that `record`, which is there, was acknowledged with are on stable
  /// storage: other replicas are going to rely on them (durability: nosync).
  Task<Status> make_durable(io::ObjectRecord record);

  // Changing what was published, and unfinished files (drive_metadata.cc).

  /// Replaces the metadata of an object that is there: `attribute` is that of its file from now on,
  /// with the same file and a higher generation. Durable when it returns; a crash leaves the old or
  /// the new. invalid_argument when it is too long for an attribute. The caller holds the name's
  /// lock.
  Task<Status> patch(io::ObjectAttribute attribute);
  /// Reads from an unfinished file what has been written to it. `into` must stay until then.
  Task<Status> read_back(WorkFile& file, std::span<std::byte> into, std::uint64_t offset);
  /// Opens an unfinished file once more, for readers that follow its writer.
  Task<Result<std::shared_ptr<FollowedFile>>> follow(WorkFile& file);
  /// Cuts an unfinished file back to `size` bytes.
  Task<Status> truncate(WorkFile& file, std::uint64_t size);

  // Slices of objects whose records may lie elsewhere (drive_slices.cc; docs/decisions/019). Only a
  // caller that holds the slice's lock (SlicesHere) seals, raises or drops it.

  /// Data with which seal() makes a work file a slice. The file holds the blocks of a slice or the
  /// bytes of a full copy.
  struct SealOrder {
    io::ObjectAttribute attribute;         ///< of kind slice; seal() returns which file it is
    std::string label;                     ///< bytes after the blocks (ec/); none of a full copy
    std::vector<std::uint32_t> checksums;  ///< of a full copy: CRC32C of every MiB
    bool anew = false;                     ///< also in place of one that is as new
  };
  enum class Sealed : std::uint8_t {
    done,
    had_it,    ///< one of the same generation is here; the work file is nothing still
    had_newer  ///< one of a higher generation is
  };
  /// Makes `file` the slice that `order` describes, in place of what is here of it: on stable
  /// storage when it returns. invalid_argument when lengths or label are not those of such a slice.
  /// After an error nothing is sealed.
  Task<Result<Sealed>> seal(WorkFile& file, SealOrder order);
  /// Raises the generation of a slice, durably. False: it is not here.
  Task<Result<bool>> raise_slice(SliceKey key, Generation generation);
  Task<Result<std::optional<io::ObjectRecord>>> find_slice(SliceKey key);
  /// The slices of a set that are here.
  Task<Result<std::vector<std::pair<SliceKey, io::ObjectRecord>>>> slices_of(BucketId bucket,
                                                                             std::string name,
                                                                             std::uint64_t set);
  /// A slice, opened for reading; null when it is not here. Of a full copy it has the record of a
  /// plain object. corrupt when its file has another length than in its entry.
  Task<Result<std::shared_ptr<OpenObject>>> open_slice(SliceKey key);
  /// Bytes that follow a slice's blocks, unchanged. object_not_found, and corrupt when it is not
  /// this slice's label.
  Task<Result<std::string>> slice_label(SliceKey key);
  /// Takes a slice away, durably, when its generation is not above `up_to`. False: nothing is here
  /// that is so old.
  Task<Result<bool>> drop_slice(SliceKey key, Generation up_to);
  /// Shows `visit` what Index::list_slices() does, on one of the drive's threads.
  Task<Status> walk_slices(BucketId bucket, std::optional<SliceKey> after,
                           Index::SliceVisitor visit);
  /// True if there is any, of whatever bucket.
  Task<Result<bool>> has_slices();

  /// rewrite_identity() on this drive, whatever else changes its file. Blocking.
  Status keep_identity(const DriveIdentity& identity);

  // Reading.

  /// The record of a name, tombstones included.
  Task<Result<std::optional<io::ObjectRecord>>> find(BucketId bucket, std::string name);
  /// The record with its file open. Nothing when there is none or a tombstone. It has no block
  /// checksums when it was adopted and has not been read since.
  Task<Result<std::shared_ptr<OpenObject>>> open_object(BucketId bucket, std::string name);
  struct Listing {
    std::vector<Index::Listed> entries;  ///< tombstones included
    bool more = false;
  };
  Task<Result<Listing>> list(BucketId bucket, std::string prefix, std::string after,
                             std::size_t limit);
  /// Reads an adopted file whole, in a turn: afterwards it has block checksums. corrupt when it is
  /// not what was stored.
  Task<Status> adopt(OpenObject& object);
  /// Turns of readers and writers at the drive.
  [[nodiscard]] HeadTurns& turns() { return *turns_; }
  [[nodiscard]] const HeadTurns& turns() const { return *turns_; }
  [[nodiscard]] io::DriveKind kind() const { return kind_; }
  /// Counts what readers were sent, for the cache policy.
  void note_sent(std::uint64_t bytes) { cache_policy_->note_read(bytes); }
  /// Runs `work` on the drive's threads; the caller does not wait for it, and it is never refused.
  /// With `refused` it may be refused while the drive hangs: that is called instead.
  void post(std::function<void()> work, std::function<void(Error)> refused = nullptr) {
    threads_->post(std::move(work), std::move(refused));
  }

  /// Shows `visit` what Index::list() does, on one of the drive's threads, in a turn of `purpose`.
  Task<Status> walk(BucketId bucket, std::string prefix, std::string after, Index::Visitor visit,
                    TurnFor purpose = TurnFor::background);

  // Beside all that goes on (drive_clean.cc).

  /// Files and directories with which a clean-up begins.
  Task<Result<KnownFiles>> known_files(const std::set<BucketId>& dead);
  /// Removes leftovers from a directory of data files. The arguments must stay until then.
  Task<Result<Cleaned>> clean(std::uint32_t directory, const KnownFiles& known,
                              const CleanOrder& order);
  /// Brings a bucket's next records after `after`, with their block checksums, into the memory of
  /// the index.
  Task<Result<Loaded>> load_index(BucketId bucket, std::string after);

  // Notes that the drive keeps for its callers, in its index: lost with that.

  /// Note that was kept under `key`; empty: none.
  Task<Result<std::string>> note(std::string key);
  /// Without a sync: a crash of the process loses nothing, one of the machine the last seconds.
  Task<Status> keep_note(std::string key, std::string value);

  /// Removes what a destroyed bucket left, in the background, and what writes that had begun store
  /// of it later.
  void forget_bucket(BucketId bucket);
  /// Writes what `json` makes, on a thread of the drive, to .tarn/cluster.json; of several that
  /// wait only the last.
  void save_cluster_state(std::function<std::string()> json);
  /// Last reads of the drive's objects of buckets with an upstream. A commit counts as one.
  [[nodiscard]] AccessTimes& access_times() { return access_times_; }
  /// Writes them, if they have changed, on a thread of the drive to .tarn/access. stop() does so
  /// as well.
  void save_access_times();
  /// Counters since the start, for metrics.
  struct Counters {
    std::atomic<std::uint64_t> hangs{0};  ///< times that it did not answer
    std::atomic<std::uint64_t> read_errors{0};
    std::atomic<std::uint64_t> write_errors{0};
    std::atomic<std::uint64_t> sync_errors{0};
    std::atomic<std::uint64_t> corrupt_blocks{0};
    std::atomic<std::uint64_t> bytes_verified{0};
    std::atomic<std::uint64_t> bytes_read{0};  ///< of data files; from the drive or its page cache
    /// Reads that did not begin where the last one of the drive had ended.
    std::atomic<std::uint64_t> seeks{0};
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// The errors of the same drive as it was before it was lost count as its own. Once, before it is
  /// used.
  void take_errors(const Counters& before);
  /// The share of a drive's rate that its readers got so far, by the model of a rotational drive: a
  /// seek costs as much as reading 2.4 MB (12 ms at 200 MB/s). 1 when nothing was read.
  [[nodiscard]] double sequential_ratio() const;
  /// Work that waits for the drive's threads or runs there.
  [[nodiscard]] std::size_t queued() const { return threads_->queued(); }
  [[nodiscard]] const io::IoCounters& io_counters() const { return files_->counters(); }
  /// Blocks until nothing runs or waits on the drive, at most `seconds`. True when it is so.
  bool run_idle(double seconds) { return threads_->drain(seconds); }
  /// Ends the threads: waits at most `seconds` for what runs, then abandons them.
  void stop(double seconds);

 private:
  friend class WorkFile;
  friend class OpenObject;
  friend class FollowedFile;
  Drive(Options options, std::unique_ptr<io::FileSystem> files, std::unique_ptr<Index> index,
        io::DriveKind kind, std::shared_ptr<HeadTurns> turns);

  /// Published, acknowledged, and not yet synced.
  struct Unsynced {
    UniqueFd fd;
    io::FileName name;
    Publication publication;
  };

  Result<std::unique_ptr<WorkFile>> create_now(std::optional<std::uint64_t> length,
                                               bool above_watermark);
  Result<io::FileName> next_file_name();
  [[nodiscard]] bool is_work_file(const io::FileName& file);
  void forget_work_file(const io::FileName& file);
  Result<std::optional<Leftover>> judge(const io::FileName& file, const CleanOrder& order);
  Result<Cleaned> clean_now(std::uint32_t directory, const KnownFiles& known,
                            const CleanOrder& order);
  Status write_now(WorkFile& file, std::span<const std::byte> bytes, std::uint64_t offset);
  Status publish_now(WorkFile& file, const Publication& publication);
  Status prepare_now(WorkFile& file, const Publication& publication);
  Status commit_now(WorkFile& file, const Publication& publication);
  Status publish_unsynced(WorkFile& file, Publication publication);
  static void check_publication(const WorkFile& file, const Publication& publication);
  [[nodiscard]] IndexBatch batch_for(const WorkFile& file, const Publication& publication);
  [[nodiscard]] std::unique_ptr<MisplacedMark::Coming> coming(const Publication& publication);
  Status take_back(WorkFile& file, const Status& why);
  void note_published(WorkFile& file, const Publication& publication);
  void remove_if_forgotten(const io::FileName& file, BucketId bucket);
  /// A file whose bytes are written, and its attribute to be.
  struct Written {
    int fd;
    const io::ObjectAttribute& attribute;
  };
  Status write_durably(const std::vector<Written>& files);
  void sync_later(int fd, const io::FileName& name, Publication publication);
  void sync_waiting();
  void sync_begins(std::span<const Unsynced> files) TARN_REQUIRES(unsynced_mutex_);
  void sync_ends(std::span<const Unsynced> files) TARN_REQUIRES(unsynced_mutex_);
  /// Between the two, without the mutex: the drive works meanwhile.
  Status sync_some(std::span<const Unsynced> files) TARN_EXCLUDES(unsynced_mutex_);
  /// As a full copy: when one of the files fails none of them counts as synced.
  Status sync_now(std::span<const Unsynced> files);
  /// Returns when nothing of `file` waits for its sync any more: that would bring back the
  /// attribute that it was published with. On the drive's threads.
  Status settle(const io::FileName& file);
  Status patch_now(const io::ObjectAttribute& attribute);
  Status patch_file(int fd, const io::ObjectAttribute& attribute);
  Status commit_patch(const std::function<IndexBatch()>& batch);
  Status note_patched(std::uint32_t directory);
  Status remove_now(BucketId bucket, const std::string& name, const io::ObjectRecord& tombstone,
                    bool keep_tombstone);
  Status commit_with_room(const std::function<IndexBatch()>& batch);
  void reap(BucketId bucket, const std::string& name, const io::FileName& file);
  Result<std::shared_ptr<OpenObject>> open_now(BucketId bucket, const std::string& name);
  Result<std::vector<std::uint32_t>> checksums_of(const io::ObjectRecord& record);
  struct SliceFile {
    io::ObjectRecord record;
    UniqueFd fd;
  };
  Result<std::optional<SliceFile>> open_slice_file(const SliceKey& key);
  Result<std::shared_ptr<OpenObject>> open_slice_now(const SliceKey& key);
  Result<std::string> slice_label_now(const SliceKey& key);
  Result<Sealed> seal_now(WorkFile& file, SealOrder& order);
  Status commit_slice(const WorkFile& file, const SealOrder& order, const SliceKey& key,
                      const std::optional<io::ObjectRecord>& old);
  void note_sealed(WorkFile& file, const SealOrder& order,
                   const std::optional<io::ObjectRecord>& old);
  Result<bool> raise_slice_now(const SliceKey& key, const Generation& generation);
  Result<bool> drop_slice_now(const SliceKey& key, const Generation& up_to);
  /// Before the drive gets its first record of a coded object, or its first slice: programs that do
  /// not know of such refuse the drive from then on.
  Status raise_format();
  /// Reads part of a data file and counts it.
  Status read_file(int fd, const io::FileName& file, std::span<std::byte> into,
                   std::uint64_t offset);
  void note_position(const io::FileName& file, std::uint64_t offset, std::uint64_t bytes);
  void forget_bucket_now(BucketId bucket);
  [[nodiscard]] bool is_forgotten(BucketId bucket);
  Status check_space(std::uint64_t length, bool above_watermark);
  void start_writeback(const WorkFile& file, std::uint64_t end);
  Status sync_or_take_out(int fd);
  Status sync_directory(const std::string& path);
  [[nodiscard]] std::optional<HangWatch::Progress::Disk> disk_progress() const;
  [[nodiscard]] Status not_taken_out() const;
  [[nodiscard]] DriveState state_now() const TARN_REQUIRES(mutex_);
  [[nodiscard]] bool has_failed_lately() const TARN_REQUIRES(mutex_);
  void hang();
  void try_again();
  void note_write_error(const Error& error);
  void note_index_error(const Error& error);
  Status refresh_space();
  void keep_ballast();
  void load_access_times();

  Options options_;
  std::unique_ptr<io::FileSystem> files_;
  std::unique_ptr<Index> index_;
  RecoveryReport recovery_;
  io::MountInfo mount_;
  io::DriveKind kind_;
  std::shared_ptr<HeadTurns> turns_;
  std::shared_ptr<CachePolicy> cache_policy_;
  MisplacedMark misplaced_;
  Counters counters_;
  VerifiedFiles verified_files_;
  AccessTimes access_times_;
  HangWatch hang_watch_{options_.hang_after};  // of watch()
  std::atomic<bool> trying_{false};            // a look if it answers again
  Mutex position_mutex_;
  io::FileName last_file_ TARN_GUARDED_BY(position_mutex_);  // the last read ended here
  std::uint64_t last_offset_ TARN_GUARDED_BY(position_mutex_) = 0;

  // Files from before they are made until they are published or gone.
  Mutex work_files_mutex_;
  std::set<io::FileName> work_files_ TARN_GUARDED_BY(work_files_mutex_);

  Mutex identity_mutex_;  // one writer of drive.json
  std::atomic<bool> format_raised_{false};

  Mutex forgotten_mutex_;
  std::set<BucketId> forgotten_ TARN_GUARDED_BY(forgotten_mutex_);

  Mutex unsynced_mutex_;
  ConditionVariable synced_;
  std::set<io::FileName> being_synced_ TARN_GUARDED_BY(unsynced_mutex_);
  std::deque<Unsynced> unsynced_ TARN_GUARDED_BY(unsynced_mutex_);
  std::uint64_t unsynced_bytes_ TARN_GUARDED_BY(unsynced_mutex_) = 0;
  std::size_t syncing_ TARN_GUARDED_BY(unsynced_mutex_) = 0;  // threads at it

  Mutex cluster_file_mutex_;  // one writer of cluster.json
  Mutex access_file_mutex_;   // one writer of kAccessFile
  // Directories that are known to be noted in kPatchedDirectory.
  Mutex patched_mutex_;  // held while a note is made
  std::set<std::uint32_t> patched_ TARN_GUARDED_BY(patched_mutex_);

  mutable Mutex mutex_;
  // State for .tarn/cluster.json; empty when it has been written.
  std::function<std::string()> cluster_state_ TARN_GUARDED_BY(mutex_);
  std::string out_ TARN_GUARDED_BY(mutex_);  // reason why it is out; empty while it is in
  bool vanished_ TARN_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Event> health_changed_ TARN_GUARDED_BY(mutex_);
  std::string hangs_ TARN_GUARDED_BY(mutex_);  // reason why it is out; empty while it answers
  io::Space space_ TARN_GUARDED_BY(mutex_);
  std::deque<BootTime> write_errors_ TARN_GUARDED_BY(mutex_);  // of the last minute

  // Apart from the one above, which event loops take: this one is held while the drive works.
  Mutex directory_mutex_;
  std::uint32_t directory_ TARN_GUARDED_BY(directory_mutex_) = 0;
  std::uint32_t files_in_directory_ TARN_GUARDED_BY(directory_mutex_) = 0;
  std::uint64_t next_id_ TARN_GUARDED_BY(directory_mutex_);

  std::unique_ptr<io::DriveThreads> threads_;  // last: joined before anything above goes

  SpaceLimits space_limits_ TARN_GUARDED_BY(mutex_);
  // Values that the threads still change while they end: these need no destructor.
  std::atomic<bool> disabled_{false};
  std::atomic<bool> closing_{false};
  std::atomic<bool> draining_{false};
  std::atomic<bool> slow_{false};
  std::atomic<std::size_t> uploads_{0};
  std::atomic<std::size_t> open_objects_{0};
};

}  // namespace tarn::target
