#include "target/drive/recovery.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/base/buffer_pool.h"
#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/hash.h"
#include "common/obs/log.h"
#include "target/drive/file_names.h"
#include "target/drive/slice_ids.h"

namespace tarn::target {
namespace {

constexpr std::size_t kAdoptedAtOnce = 1000;

using io::FileName;
using io::ObjectRecord;

struct FileNameHash {
  std::size_t operator()(const FileName& name) const {
    return name.id * 0x9e3779b97f4a7c15ULL ^ name.directory;
  }
};

class Reconciliation {
 public:
  Reconciliation(io::FileSystem& files, Index& index, const std::set<BucketId>& dead,
                 const EvictedBuckets& evicted, std::string drive, const NamePlaces& places)
      : files_(files),
        index_(index),
        dead_(dead),
        evicted_(evicted),
        drive_(std::move(drive)),
        places_(places) {}

  Result<RecoveryReport> run() {
    TRY_OK(finish_unsynced());
    TRY_OK(read_index());
    TRY_OK(read_patched_directories());
    TRY_OK(read_directories());
    // Before any orphan is judged: a record without a file must not outrank an older file that is
    // there.
    TRY_OK(drop_records_without_file());
    TRY_OK(take_newer_metadata());
    for (const FileName& file : orphans_) TRY_OK(judge_orphan(file));
    TRY_OK(write_adopted());
    for (const std::uint32_t directory : changed_directories_)
      TRY_OK(files_.sync_directory(FileName{directory, 0}.directory_path()));
    TRY_OK(drop_notes());
    // One synced write: everything before it is durable with it.
    IndexBatch batch;
    batch.put_flag("format", "1");
    TRY_OK(index_.commit(std::move(batch)));
    return report_;
  }

 private:
  /// Files that were acknowledged before their sync.
  Status finish_unsynced() {
    std::vector<std::pair<FileName, std::string>> notes;
    TRY_OK(index_.scan_unsynced([&](const FileName& file, std::string_view attribute) {
      notes.emplace_back(file, attribute);
    }));
    for (const auto& [file, bytes] : notes) {
      IndexBatch batch;
      TRY_OK(judge_unsynced(file, bytes, batch));
      batch.erase_unsynced(file);
      TRY_OK(index_.commit(std::move(batch)));
    }
    return {};
  }

  Status judge_unsynced(const FileName& file, const std::string& bytes, IndexBatch& batch) {
    const auto attribute = io::decode_attribute(bytes);
    if (!attribute) return {};  // the file has none either, and goes with the orphans
    TRY(const auto present, index_.find(attribute->bucket_id, attribute->name));
    const bool named =
        present && present->kind == ObjectRecord::Kind::object && present->file == file;
    if (!named) return {};
    TRY(const bool whole, is_whole(file, *present));
    if (whole) {
      TRY(const UniqueFd fd, files_.open_for_read(file.path()));
      TRY_OK(files_.sync(fd.get()));
      TRY_OK(files_.set_attribute(fd.get(), bytes));
      TRY_OK(files_.sync(fd.get()));
      return files_.sync_directory(file.directory_path());
    }
    // The version before it, if there was one, is still there and is adopted.
    ++report_.torn_files;
    obs::log("recovery")
        .warn("file was not synced before the crash, removed drive={} file={} object={}", drive_,
              file.path(), attribute->name);
    batch.erase_record(attribute->bucket_id, attribute->name);
    batch.erase_block_checksums(file);
    return {};
  }

  /// True if the file has all bytes of its record. The file of a coded object is empty.
  Result<bool> is_whole(const FileName& file, const ObjectRecord& record) {
    const std::uint64_t size = record.file_bytes();
    const auto fd = files_.open_for_read(file.path());
    if (!fd && fd.error().code == Errc::not_found) return false;
    if (!fd) return fail(fd.error());
    TRY(const std::uint64_t found, files_.size(fd->get()));
    if (found != size) return false;
    const PooledBuffer buffer(PooledBuffer::kBlockBytes);
    Xxh64Stream whole;
    for (std::uint64_t at = 0; at < size; at += PooledBuffer::kBlockBytes) {
      const auto slice =
          buffer.span().first(std::min<std::uint64_t>(PooledBuffer::kBlockBytes, size - at));
      TRY_OK(files_.read(fd->get(), slice, at));
      whole.update(slice);
    }
    return record.coding || whole.digest() == record.xxh64;
  }

  Status read_index() {
    IndexBatch batch;
    bool any = false;
    TRY_OK(index_.scan([&](BucketId bucket, std::string_view name, const ObjectRecord& record) {
      any = true;
      const bool dead = dead_.contains(bucket);
      if (record.kind == ObjectRecord::Kind::tombstone) {
        if (dead) {
          batch.erase_record(bucket, name);
        } else {
          ++report_.tombstones;
          place(bucket, bucket_of(bucket), name);
        }
        return;
      }
      if (dead) {
        batch.erase_record(bucket, name);  // its file is then an orphan of a dead bucket
        return;
      }
      if (is_evicted(bucket, record)) {
        batch.erase_record(bucket, name);  // its file is then an orphan, and no object
        batch.erase_block_checksums(record.file);
        ++report_.evicted;
        return;
      }
      ++report_.records;
      report_.bytes += record.file_bytes();
      place(bucket, bucket_of(bucket), name);
      known_.emplace(record.file, false);
    }));
    TRY_OK(index_.scan_slices([&](const SliceKey& key, const ObjectRecord& record) {
      any = true;
      if (dead_.contains(key.bucket)) {
        batch.erase_slice(key);
        return true;
      }
      ++report_.slices;
      report_.slice_bytes += record.file_bytes();
      known_.emplace(record.file, false);
      return true;
    }));
    index_was_empty_ = !any;
    return index_.commit_lazily(std::move(batch));
  }

  /// A tombstone stays: it may be the mark of a write upstream.
  [[nodiscard]] bool is_evicted(BucketId bucket, const ObjectRecord& record) const {
    const auto found = evicted_.find(bucket);
    return found != evicted_.end() && record.kind == ObjectRecord::Kind::object &&
           record.generation <= found->second && SAFETY("safety.drop_evicted");
  }

  [[nodiscard]] const api::Bucket* bucket_of(BucketId id) const {
    const auto found = places_.buckets.find(id);
    return found == places_.buckets.end() ? nullptr : &found->second;
  }

  /// Counts a name that does not belong here, or may not.
  void place(BucketId id, const api::Bucket* bucket, std::string_view name) {
    if (places_.spread.contains(id)) return;
    if (bucket == nullptr || !places_.belongs) {
      ++report_.unplaced;
    } else if (!places_.belongs(bucket->uname(name))) {
      ++report_.misplaced;
    }
  }

  Status read_patched_directories() {
    TRY_OK(files_.make_directory(kPatchedDirectory));
    TRY(const auto names, files_.list(kPatchedDirectory));
    for (const std::string& name : names)
      if (const auto number = directory_in(name)) patched_directories_.insert(*number);
    return {};
  }

  Status read_directories() {
    TRY(const auto directories, files_.list("data"));
    for (const std::string& name : directories) {
      const auto number = directory_in(name);
      if (!number) continue;  // not ours; left alone
      TRY_OK(read_directory(*number));
    }
    return {};
  }

  Status read_directory(std::uint32_t directory) {
    const std::string path = FileName{directory, 0}.directory_path();
    TRY(const auto names, files_.list(path));
    if (directory >= report_.last_directory) {
      report_.last_directory = directory;
      report_.files_in_last_directory = static_cast<std::uint32_t>(names.size());
    }
    for (const std::string& name : names) {
      const auto id = file_id_in(name);
      if (!id) continue;
      const FileName file{directory, *id};
      if (const auto known = known_.find(file); known != known_.end()) {
        known->second = true;
        if (patched_directories_.contains(directory)) maybe_patched_.push_back(file);
      } else {
        orphans_.push_back(file);
      }
    }
    return {};
  }

  /// A PATCH that died between its attribute and the index, or an index that lost its tail: the
  /// file has what was last made durable.
  Status take_newer_metadata() {
    if (!SAFETY("safety.newer_metadata")) return {};
    IndexBatch batch;
    for (const FileName& file : maybe_patched_) {
      TRY(const UniqueFd fd, files_.open_for_read(file.path()));
      const auto attribute = io::read_attribute(fd.get(), file.path());
      if (!attribute) {
        obs::log("recovery")
            .error("attribute unreadable, its record stays drive={} file={} err={}", drive_,
                   file.path(), attribute.error().message);
        continue;
      }
      const bool is_slice = attribute->record.kind == ObjectRecord::Kind::slice;
      TRY(const auto present, is_slice ? index_.find_slice(key_of(*attribute))
                                       : index_.find(attribute->bucket_id, attribute->name));
      const bool same_file = present && present->kind != ObjectRecord::Kind::tombstone &&
                             present->file == file && attribute->record.file == file;
      if (!same_file || attribute->record.generation <= present->generation) continue;
      if (is_slice) {
        batch.put_slice(key_of(*attribute), attribute->record);
      } else {
        batch.put_record(attribute->bucket_id, attribute->name, attribute->record);
      }
      ++report_.newer_metadata;
    }
    return index_.commit_lazily(std::move(batch));
  }

  /// A file that no record names: nothing, a leftover, or an object that the index lost.
  Status judge_orphan(const FileName& file) {
    TRY(const UniqueFd fd, files_.open_for_read(file.path()));
    auto attribute = io::read_attribute(fd.get(), file.path());
    if (!attribute && attribute.error().code == Errc::corrupt) {
      ++report_.unreadable_files;
      obs::log("recovery")
          .error("attribute damaged, file left alone drive={} file={} err={}", drive_, file.path(),
                 attribute.error().message);
      return {};
    }
    if (!attribute && attribute.error().code != Errc::not_found) return fail(attribute.error());
    if (!attribute) {
      ++report_.work_files;
      return remove(file);
    }
    if (attribute->record.kind == ObjectRecord::Kind::slice)
      return judge_slice(*attribute, file, fd.get());
    TRY(const auto present, record_of(attribute->bucket_id, attribute->name));
    TRY(const bool wanted, should_adopt(*attribute, present, file, fd.get()));
    if (wanted) return adopt(*attribute, present);
    ++report_.stale_files;
    return remove(file);
  }

  /// A sealed slice without an entry: one that was about to get it, that was about to go, or that
  /// the index lost. It is taken for what its attribute names; the owner of the name is asked about
  /// it later.
  Status judge_slice(const io::ObjectAttribute& attribute, const FileName& file, int fd) {
    const SliceKey key = key_of(attribute);
    const auto fresh = adopted_slices_.find(key);
    std::optional<ObjectRecord> present;
    if (fresh != adopted_slices_.end()) {
      present = fresh->second;
    } else {
      TRY(present, index_.find_slice(key));
    }
    TRY(const bool wanted, should_adopt(attribute, present, file, fd));
    if (!wanted) {
      ++report_.stale_files;
      return remove(file);
    }
    ++report_.adopted;
    adopted_slices_[key] = attribute.record;
    report_.slice_bytes += attribute.record.file_bytes();
    if (present) {
      TARN_CHECK(present->file != attribute.record.file);
      ++report_.stale_files;
      report_.slice_bytes -= present->file_bytes();
      TRY_OK(remove(present->file));
    } else {
      ++report_.slices;
    }
    return adopted_slices_.size() < kAdoptedAtOnce ? Status() : write_adopted();
  }

  Status remove(const FileName& file) {
    changed_directories_.insert(file.directory);
    return files_.remove(file.path());
  }

  /// Record of a name in the index, also one that is there only once write_adopted() has run.
  Result<std::optional<ObjectRecord>> record_of(BucketId bucket, const std::string& name) {
    if (const auto fresh = adopted_.find({bucket, name}); fresh != adopted_.end())
      return std::optional(fresh->second);
    return index_.find(bucket, name);
  }

  Result<bool> should_adopt(const io::ObjectAttribute& attribute,
                            const std::optional<ObjectRecord>& present, const FileName& file,
                            int fd) {
    if (!SAFETY("safety.adopt")) return false;
    if (dead_.contains(attribute.bucket_id)) return false;
    if (is_evicted(attribute.bucket_id, attribute.record)) return false;
    if (attribute.record.kind == ObjectRecord::Kind::tombstone || attribute.record.file != file)
      return false;  // copied by hand into a place that is not its own
    TRY(const std::uint64_t size, files_.size(fd));
    if (size != attribute.record.file_bytes()) {
      obs::log("recovery")
          .error("file has {} bytes, its attribute says {} drive={} file={}", size,
                 attribute.record.file_bytes(), drive_, file.path());
      return false;
    }
    if (!SAFETY("safety.generation")) return true;
    return !present || present->generation < attribute.record.generation;
  }

  Status adopt(const io::ObjectAttribute& attribute, const std::optional<ObjectRecord>& present) {
    adopted_[{attribute.bucket_id, attribute.name}] = attribute.record;
    ++report_.adopted;
    report_.bytes += attribute.record.file_bytes();
    const api::Bucket* const known = bucket_of(attribute.bucket_id);
    place(attribute.bucket_id, known != nullptr ? known : &attribute.bucket, attribute.name);
    if (present && present->kind == ObjectRecord::Kind::object) {
      TARN_CHECK(present->file != attribute.record.file);
      ++report_.stale_files;
      report_.bytes -= present->file_bytes();
      TRY_OK(remove(present->file));
    } else {
      ++report_.records;
    }
    return adopted_.size() < kAdoptedAtOnce ? Status() : write_adopted();
  }

  /// Many records at once: one write of the index for each would halve the rate of a lost index.
  /// A crash before it leaves the files as they are, for the next start to adopt.
  Status write_adopted() {
    IndexBatch batch;
    for (const auto& [key, record] : adopted_) {
      batch.put_record(key.first, key.second, record);
      // None until the file has been read once.
      if (!index_was_empty_) batch.erase_block_checksums(record.file);
    }
    adopted_.clear();
    for (const auto& [key, record] : adopted_slices_) {
      batch.put_slice(key, record);
      if (!index_was_empty_) batch.erase_block_checksums(record.file);
    }
    adopted_slices_.clear();
    return index_.commit_lazily(std::move(batch));
  }

  Status drop_records_without_file() {
    std::vector<std::pair<BucketId, std::string>> lost;
    std::uint64_t lost_bytes = 0;
    bool any = false;
    for (const auto& [file, seen] : known_) any = any || !seen;
    if (!any) return {};
    TRY_OK(index_.scan([&](BucketId bucket, std::string_view name, const ObjectRecord& record) {
      if (record.kind != ObjectRecord::Kind::object) return;
      const auto known = known_.find(record.file);
      if (known == known_.end() || known->second) return;
      lost.emplace_back(bucket, name);
      lost_bytes += record.file_bytes();
    }));
    TRY_OK(drop_slices_without_file());
    IndexBatch batch;
    for (const auto& [bucket, name] : lost) {
      batch.erase_record(bucket, name);
      obs::log("recovery")
          .warn("file is gone, record removed drive={} bucket_id={} object={}", drive_, raw(bucket),
                name);
    }
    report_.lost_records += lost.size();
    report_.records -= lost.size();
    report_.bytes -= lost_bytes;
    return index_.commit_lazily(std::move(batch));
  }

  Status drop_slices_without_file() {
    IndexBatch batch;
    TRY_OK(index_.scan_slices([&](const SliceKey& key, const ObjectRecord& record) {
      const auto known = known_.find(record.file);
      if (known == known_.end() || known->second) return true;
      batch.erase_slice(key);
      ++report_.lost_records;
      --report_.slices;
      report_.slice_bytes -= record.file_bytes();
      obs::log("recovery")
          .warn("file is gone, slice removed drive={} bucket_id={} object={} slice={}", drive_,
                raw(key.bucket), key.name, key.index);
      return true;
    }));
    return index_.commit_lazily(std::move(batch));
  }

  /// Replaced files have been looked at like all other files; their notes are done.
  Status drop_notes() {
    IndexBatch batch;
    TRY_OK(index_.scan_replaced([&](BucketId bucket, std::string_view name, const FileName& file) {
      batch.erase_replaced(bucket, name, file);
      batch.erase_block_checksums(file);
    }));
    return index_.commit_lazily(std::move(batch));
  }

  io::FileSystem& files_;
  Index& index_;
  const std::set<BucketId>& dead_;
  const EvictedBuckets& evicted_;
  std::string drive_;
  const NamePlaces& places_;
  bool index_was_empty_ = false;
  RecoveryReport report_;
  /// Files that records name: have we seen them?
  std::unordered_map<FileName, bool, FileNameHash> known_;
  std::vector<FileName> orphans_;
  std::set<std::uint32_t> patched_directories_;
  /// Files with a record whose attribute may be newer than it.
  std::vector<FileName> maybe_patched_;
  /// Adopted and not yet in the index.
  std::map<std::pair<BucketId, std::string>, ObjectRecord> adopted_;
  std::map<SliceKey, ObjectRecord> adopted_slices_;
  std::set<std::uint32_t> changed_directories_;
};

}  // namespace

Result<RecoveryReport> reconcile(io::FileSystem& files, Index& index,
                                 const std::set<BucketId>& dead_buckets,
                                 const EvictedBuckets& evicted, const std::string& drive,
                                 const NamePlaces& places) {
  return Reconciliation(files, index, dead_buckets, evicted, drive, places).run();
}

}  // namespace tarn::target
