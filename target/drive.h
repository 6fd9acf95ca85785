#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/io/drive_threads.h"
#include "common/io/file_system.h"
#include "common/io/object_attribute.h"
#include "target/index.h"
#include "target/recovery.h"

namespace tarn::target {

class Drive;

/// The unit of block checksums: every MiB of a file has a CRC32C in the index.
inline constexpr std::uint64_t kBlockBytes = 1U << 20U;
[[nodiscard]] constexpr std::uint64_t blocks_of(std::uint64_t size) {
  return (size + kBlockBytes - 1) / kBlockBytes;
}

/// How full a drive may get. Percentages of the file system.
struct SpaceLimits {
  double reserve_percent = 1;       ///< never touched by data: the index needs room to live
  std::uint64_t reserve_bytes = 0;  ///< instead of the percentage, when not 0
  double high_watermark = 90;       ///< above: new files go to the next drive
  double out_of_space = 95;         ///< above: no new files at all
};

/// A data file that nobody sees yet. Dies with its bytes unless published: the file is then
/// unlinked on the drive's threads.
class WorkFile {
 public:
  WorkFile(Drive& drive, io::FileName name, UniqueFd fd)
      : drive_(drive), name_(name), fd_(std::move(fd)) {}
  ~WorkFile();
  WorkFile(const WorkFile&) = delete;
  WorkFile& operator=(const WorkFile&) = delete;
  [[nodiscard]] const io::FileName& name() const { return name_; }
  [[nodiscard]] Drive& drive() const { return drive_; }
  /// False once it has been published, or failed to be and is gone.
  [[nodiscard]] bool is_open() const { return fd_.valid(); }

 private:
  friend class Drive;
  Drive& drive_;
  io::FileName name_;
  UniqueFd fd_;
  std::uint64_t written_back_ = 0;
  bool published_ = false;
};

/// Which blocks of a file have been compared with their checksums since their pages came in.
class VerifiedBlocks {
 public:
  explicit VerifiedBlocks(std::size_t count) : blocks_(count) {}
  [[nodiscard]] bool get(std::size_t block) const { return blocks_[block].load() != 0; }
  void set(std::size_t block, bool verified) { blocks_[block].store(verified ? 1 : 0); }

 private:
  std::vector<std::atomic<std::uint8_t>> blocks_;
};

/// An object opened for reading: it stays readable when the name is overwritten or deleted. The
/// last owner's end closes the file on the drive's threads.
class OpenObject {
 public:
  OpenObject(Drive& drive, io::ObjectRecord record, UniqueFd fd,
             std::vector<std::uint32_t> checksums, std::shared_ptr<VerifiedBlocks> verified);
  ~OpenObject();
  OpenObject(const OpenObject&) = delete;
  OpenObject& operator=(const OpenObject&) = delete;

  [[nodiscard]] const io::ObjectRecord& record() const { return record_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Whether these bytes may be sent by the event loop: in memory, and verified since they came
  /// there.
  [[nodiscard]] bool may_send(std::uint64_t offset, std::uint64_t bytes) const;
  /// Reads one block into `into` (which has room for it) and compares it with its checksum. Returns
  /// its length. On the drive's threads. corrupt: these bytes are not what was stored.
  Task<Result<std::size_t>> read_block(std::uint64_t block, std::span<std::byte> into);
  io::DriveThreads::Pending<Result<std::size_t>> start_read_block(std::uint64_t block,
                                                                  std::span<std::byte> into);

 private:
  Result<std::size_t> read_block_now(std::uint64_t block, std::span<std::byte> into);

  Drive& drive_;
  io::ObjectRecord record_;
  UniqueFd fd_;
  std::vector<std::uint32_t> checksums_;
  std::shared_ptr<VerifiedBlocks> verified_;
};

/// One drive of a target: files, index, threads (design.md, section 5). The functions that return a
/// Task hop to the drive's threads and back; the event loop never waits for the drive. Thread-safe.
class Drive {
 public:
  struct Options {
    std::string path;
    std::size_t threads = 8;
    SpaceLimits space;
    bool may_hold_foreign = false;
    /// The paths of all drives of the target, there or not: placement among them. Empty: this one
    /// alone.
    std::vector<std::string> all_paths;
    std::set<BucketId> dead_buckets;
    /// When set: the file system to use (tests).
    std::unique_ptr<io::FileSystem> files;
  };
  /// Opens the index and reconciles it with the files. Blocking: not from an event loop.
  [[nodiscard]] static Result<std::unique_ptr<Drive>> open(Options options,
                                                           const IndexMemory& memory);
  ~Drive();

  [[nodiscard]] const std::string& path() const { return options_.path; }
  /// placement_digest of the path: which drive of the target a name lives on.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  [[nodiscard]] const RecoveryReport& recovery() const { return recovery_; }
  /// Whether records may lie here whose home is another drive (an overflow, or a changed drive
  /// set).
  [[nodiscard]] bool may_hold_foreign() const { return foreign_.load(); }

  /// unavailable with the reason once the drive is out.
  [[nodiscard]] Status usable() const;
  /// Takes the drive out: no further write, no further read.
  void take_out(const std::string& why);
  /// Looks whether the drive is still there and answers. On the drive's threads; once a second.
  Task<Status> probe();
  [[nodiscard]] io::Space space() const;
  [[nodiscard]] double used_percent() const;

  // Writing an object: create, write..., publish.

  /// A new file with room for `length` bytes, if that is known. no_space when the limits say no.
  /// `above_watermark`: whether the high watermark may be passed.
  Task<Result<std::unique_ptr<WorkFile>>> create(std::optional<std::uint64_t> length,
                                                 bool above_watermark);
  /// Writes in the background; `bytes` must stay until the result is there.
  io::DriveThreads::Pending<Status> write(WorkFile& file, std::span<const std::byte> bytes,
                                          std::uint64_t offset);
  /// Makes `file` the object that `attribute` says, durably: see the order in drive.cc. `old`: the
  /// record on this drive that it replaces. The caller holds the name's lock.
  Task<Status> publish(WorkFile& file, io::ObjectAttribute attribute,
                       std::vector<std::uint32_t> checksums, std::optional<io::ObjectRecord> old,
                       bool foreign);
  /// Takes a name away, durably: tombstone, unlink, directory. `tombstone` false: the record is
  /// merely erased (a leftover of a name that lives on another drive now).
  Task<Status> remove(BucketId bucket, std::string name, io::ObjectRecord tombstone,
                      bool keep_tombstone);

  // Changing what was published, and unfinished files (drive_metadata.cc).

  /// Replaces the metadata of an object that is there: `attribute` is what its file shall say from
  /// now on, with the same file and a higher generation. Durable when it returns; a crash leaves
  /// the old or the new. invalid_argument when it is too long for an attribute. The caller holds
  /// the name's lock.
  Task<Status> patch(io::ObjectAttribute attribute);
  /// Reads from an unfinished file what has been written to it. `into` must stay until then.
  Task<Status> read_back(WorkFile& file, std::span<std::byte> into, std::uint64_t offset);
  /// Cuts an unfinished file back to `size` bytes.
  Task<Status> truncate(WorkFile& file, std::uint64_t size);

  // Reading.

  /// The record of a name, tombstones included.
  Task<Result<std::optional<io::ObjectRecord>>> find(BucketId bucket, std::string name);
  /// The record with its file open. Nothing when there is none or a tombstone. Reads the whole file
  /// once when it has no block checksums yet (it was adopted), and compares it with the object's
  /// checksum.
  Task<Result<std::shared_ptr<OpenObject>>> open_object(BucketId bucket, std::string name);
  struct Listing {
    std::vector<Index::Listed> entries;  ///< tombstones included
    bool more = false;
  };
  Task<Result<Listing>> list(BucketId bucket, std::string prefix, std::string after,
                             std::size_t limit);

  /// Removes what a destroyed bucket left, in the background.
  void forget_bucket(BucketId bucket);
  /// Writes .tarn/cluster.json.
  void save_cluster_state(std::string json);
  /// Counters since the start, for metrics.
  struct Counters {
    std::atomic<std::uint64_t> read_errors{0};
    std::atomic<std::uint64_t> write_errors{0};
    std::atomic<std::uint64_t> sync_errors{0};
    std::atomic<std::uint64_t> corrupt_blocks{0};
    std::atomic<std::uint64_t> bytes_verified{0};
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Blocks until nothing runs or waits on the drive, at most `seconds`. True when it is so.
  bool run_idle(double seconds) { return threads_->drain(seconds); }
  /// Ends the threads: waits at most `seconds` for what runs, then leaves them behind.
  void stop(double seconds);

 private:
  friend class WorkFile;
  friend class OpenObject;
  Drive(Options options, std::unique_ptr<io::FileSystem> files, std::unique_ptr<Index> index);

  Result<std::unique_ptr<WorkFile>> create_now(std::optional<std::uint64_t> length,
                                               bool above_watermark);
  Result<io::FileName> next_file_name();
  Status write_now(WorkFile& file, std::span<const std::byte> bytes, std::uint64_t offset);
  Status publish_now(WorkFile& file, const io::ObjectAttribute& attribute,
                     const std::vector<std::uint32_t>& checksums,
                     const std::optional<io::ObjectRecord>& old, bool foreign);
  Status write_durably(WorkFile& file, const io::ObjectAttribute& attribute);
  Status patch_now(const io::ObjectAttribute& attribute);
  Status note_patched(std::uint32_t directory);
  Status remove_now(BucketId bucket, const std::string& name, const io::ObjectRecord& tombstone,
                    bool keep_tombstone);
  Status commit_with_room(const std::function<IndexBatch()>& batch);
  void reap(BucketId bucket, const std::string& name, const io::FileName& file);
  Result<std::shared_ptr<OpenObject>> open_now(BucketId bucket, const std::string& name);
  Result<std::vector<std::uint32_t>> build_checksums(const io::ObjectRecord& record, int fd,
                                                     const std::string& name);
  void forget_bucket_now(BucketId bucket);
  Status check_space(std::uint64_t length, bool above_watermark);
  Status sync_or_take_out(int fd);
  Status refresh_space();
  void keep_ballast();
  std::shared_ptr<VerifiedBlocks> verified_blocks(const io::FileName& file, std::uint64_t size);

  Options options_;
  std::unique_ptr<io::FileSystem> files_;
  std::unique_ptr<Index> index_;
  RecoveryReport recovery_;
  std::uint64_t digest_;
  std::atomic<bool> foreign_{false};
  Counters counters_;

  std::mutex cluster_file_mutex_;    // one writer of cluster.json
  std::mutex patched_mutex_;         // guards patched_; held while a note is made
  std::set<std::uint32_t> patched_;  // directories that are known to be noted in kPatchedDirectory
  mutable std::mutex mutex_;         // guards what follows
  std::string cluster_state_;        // to be written to .tarn/cluster.json; empty when it has been
  std::string out_;                  // why the drive is out; empty while it is in
  io::Space space_;
  std::uint32_t directory_ = 0;
  std::uint32_t files_in_directory_ = 0;
  std::uint64_t next_id_;
  struct VerifiedCache;
  std::unique_ptr<VerifiedCache> verified_cache_;

  std::unique_ptr<io::DriveThreads> threads_;  // last: joined before anything above goes
};

}  // namespace tarn::target
