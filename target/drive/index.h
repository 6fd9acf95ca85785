#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/io/object_attribute.h"

namespace rocksdb {
class WriteBatch;
}

namespace tarn::target {

class HeadTurns;

/// The memory that the indexes of all drives of a target share.
class IndexMemory {
 public:
  IndexMemory(std::size_t cache_bytes, std::size_t write_buffer_bytes);
  ~IndexMemory();
  struct Impl;
  [[nodiscard]] const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Slice of a version of an object: data, parity, or the full copy (io::kFullCopy). On one drive
/// there is one at most.
struct SliceKey {
  BucketId bucket{};
  std::string name;
  std::uint64_t set = 0;
  std::uint8_t index = 0;

  auto operator<=>(const SliceKey&) const = default;
};

/// Changes that become visible and durable together.
class IndexBatch {
 public:
  IndexBatch();
  ~IndexBatch();
  IndexBatch(IndexBatch&&) noexcept;

  void put_record(BucketId bucket, std::string_view name, const io::ObjectRecord& record);
  void erase_record(BucketId bucket, std::string_view name);
  /// `record` is of kind slice, and has the set and index of the key.
  void put_slice(const SliceKey& key, const io::ObjectRecord& record);
  void erase_slice(const SliceKey& key);
  /// CRC32C of every MiB of a file, the last one may be shorter.
  void put_block_checksums(const io::FileName& file, const std::vector<std::uint32_t>& checksums);
  void erase_block_checksums(const io::FileName& file);
  /// Notes that `file` was replaced and may still have to be unlinked.
  void put_replaced(BucketId bucket, std::string_view name, const io::FileName& file);
  void erase_replaced(BucketId bucket, std::string_view name, const io::FileName& file);
  /// Notes that `file` was acknowledged before it was synced. `attribute`: the one that it will
  /// have.
  void put_unsynced(const io::FileName& file, std::string_view attribute);
  void erase_unsynced(const io::FileName& file);
  void put_flag(std::string_view key, std::string_view value);

 private:
  friend class Index;
  std::unique_ptr<rocksdb::WriteBatch> batch_;
};

/// One drive's index: a RocksDB with the records of its objects, sorted by bucket and name, and
/// those of the slices that lie here. They are apart: a record of an object never is one of a
/// slice. The files are the truth; what the index lost can be made again from them
/// (target/drive/recovery.h). Blocking: on the drive's threads only. Thread-safe. Errors: io,
/// no_space, corrupt.
class Index {
 public:
  struct Listed {
    std::string name;
    io::ObjectRecord record;
  };

  /// Opens the index in `directory`, or makes it. One that cannot be read is moved aside (to
  /// `<directory>.broken`) and an empty one made: recovery fills it from the files.
  /// Its background work takes `turns` on the drive, when there are any.
  [[nodiscard]] static Result<std::unique_ptr<Index>> open(
      const std::string& directory, const std::string& drive, const IndexMemory& memory,
      const std::shared_ptr<HeadTurns>& turns = nullptr);
  /// Moves an index aside that opened but cannot be read, so that open() makes an empty one.
  static Status discard(const std::string& directory);
  ~Index();

  [[nodiscard]] Result<std::optional<io::ObjectRecord>> find(BucketId bucket,
                                                             std::string_view name);
  [[nodiscard]] Result<std::optional<io::ObjectRecord>> find_slice(const SliceKey& key);
  /// The slices of a set that lie here, by index.
  [[nodiscard]] Result<std::vector<std::pair<SliceKey, io::ObjectRecord>>> slices_of(
      BucketId bucket, std::string_view name, std::uint64_t set);
  /// Returns nothing when there are none: the record was made from the file alone.
  [[nodiscard]] Result<std::optional<std::vector<std::uint32_t>>> block_checksums(
      const io::FileName& file);
  [[nodiscard]] Result<std::vector<io::FileName>> replaced(BucketId bucket, std::string_view name);
  /// True if there is a note that `file` was acknowledged before it was synced.
  [[nodiscard]] Result<bool> is_unsynced(const io::FileName& file);
  [[nodiscard]] Result<std::string> flag(std::string_view key);

  /// On stable storage when it returns; concurrent commits share one sync.
  Status commit(IndexBatch batch);
  /// Without a sync: for clean-up that a restart would do again.
  Status commit_lazily(IndexBatch batch);

  /// Answer of a visitor of list() to a record.
  struct Step {
    bool stop = false;
    std::string skip_to;  ///< unless empty: goes on with the least name that is not below this
  };
  using Visitor = std::function<Step(std::string_view name, io::ObjectRecord record)>;
  /// Records of a bucket whose names are greater than `after` and begin with `prefix`, in byte
  /// order of the names, tombstones included, until `visit` stops.
  Status list(BucketId bucket, std::string_view prefix, std::string_view after,
              const Visitor& visit);
  /// Skips in list(): the least name that does not begin with `prefix`.
  [[nodiscard]] static std::string after_prefix(std::string prefix);

  /// Every record of the index, by bucket and name. Verifies checksums: corrupt when a block is
  /// bad.
  Status scan(
      const std::function<void(BucketId, std::string_view name, const io::ObjectRecord&)>& visit);
  /// False: stop.
  using SliceVisitor = std::function<bool(const SliceKey& key, const io::ObjectRecord& record)>;
  /// Slices of a bucket after `after`, by name, set and index, until `visit` stops.
  Status list_slices(BucketId bucket, const std::optional<SliceKey>& after,
                     const SliceVisitor& visit);
  /// Every slice of the index, by bucket and the same, until `visit` stops. Errors as scan().
  Status scan_slices(const SliceVisitor& visit);
  /// Every note of a replaced file.
  Status scan_replaced(
      const std::function<void(BucketId, std::string_view name, const io::FileName&)>& visit);
  /// Every note of a file that was not synced, with the attribute that it was to have.
  Status scan_unsynced(
      const std::function<void(const io::FileName& file, std::string_view attribute)>& visit);
  /// Removes all records of a bucket, and all of its slices.
  Status erase_bucket(BucketId bucket);
  /// After space came back: lets writes go on that a full drive stopped.
  Status resume();
  /// An error when RocksDB reported one in the background: the index takes no writes. no_space may
  /// pass; after anything else the drive is not to be trusted.
  [[nodiscard]] Status background_error() const;

 private:
  struct Impl;
  Status walk_slices(const std::string& start, const std::string& prefix,
                     const SliceVisitor& visit);
  explicit Index(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tarn::target
