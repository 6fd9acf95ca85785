#include "target/drive/index.h"

#include <filesystem>

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <rocksdb/write_buffer_manager.h>

#include "common/base/check.h"
#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/mutex.h"
#include "common/obs/log.h"
#include "target/drive/index_env.h"

namespace tarn::target {
namespace {

// The first byte of a key is its kind (docs/on-disk-layout.md).
constexpr char kRecord = 'o';
constexpr char kChecksums = 'c';
constexpr char kReplaced = 'r';
constexpr char kSlice = 's';
constexpr char kUnsynced = 'u';
constexpr char kFlag = 'm';

void append_be64(std::string& out, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}
void append_be32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}
std::uint64_t read_be(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

std::string bucket_prefix(char kind, BucketId bucket) {
  std::string key(1, kind);
  append_be64(key, raw(bucket));
  return key;
}
std::string record_key(BucketId bucket, std::string_view name) {
  return bucket_prefix(kRecord, bucket).append(name);
}
std::string file_key(char kind, const io::FileName& file) {
  std::string key(1, kind);
  append_be32(key, file.directory);
  append_be64(key, file.id);
  return key;
}
std::string checksums_key(const io::FileName& file) { return file_key(kChecksums, file); }
/// Names have no NUL, so the prefix of one name is not that of another.
std::string replaced_prefix(BucketId bucket, std::string_view name) {
  std::string key = bucket_prefix(kReplaced, bucket).append(name);
  key += '\0';
  return key;
}
std::string replaced_key(BucketId bucket, std::string_view name, const io::FileName& file) {
  std::string key = replaced_prefix(bucket, name);
  append_be32(key, file.directory);
  append_be64(key, file.id);
  return key;
}
// After the name: NUL, set and index.
constexpr std::size_t kSliceTail = 1 + 8 + 1;
/// Names have no NUL here either.
std::string slices_prefix(BucketId bucket, std::string_view name, std::uint64_t set) {
  std::string key = bucket_prefix(kSlice, bucket).append(name);
  key += '\0';
  append_be64(key, set);
  return key;
}
std::string slice_key(const SliceKey& slice) {
  std::string key = slices_prefix(slice.bucket, slice.name, slice.set);
  key += static_cast<char>(slice.index);
  return key;
}
io::FileName file_at_end(std::string_view key) {
  const auto tail = key.substr(key.size() - 12);
  return {static_cast<std::uint32_t>(read_be(tail.substr(0, 4))), read_be(tail.substr(4))};
}

Status to_status(const rocksdb::Status& status, std::string_view what, std::string_view drive) {
  if (status.ok()) return {};
  if (status.ToString().find("lock file") != std::string::npos)
    return fail(Errc::conflict,
                "drive {} is in use by another process: a drive belongs to one target that runs",
                drive);
  const Errc code = status.IsCorruption() ? Errc::corrupt
                    : status.IsNoSpace() || status.subcode() == rocksdb::Status::kNoSpace
                        ? Errc::no_space
                        : Errc::io;
  return fail(code, "index of drive {}: {}: {}", drive, what, status.ToString());
}

/// Objects and tombstones lie apart from slices: one on the wrong side was found by a key that is
/// not the record's.
Result<io::ObjectRecord> decode_named(std::string_view value) {
  TRY(auto record, io::decode_record(value));
  if (record.kind == io::ObjectRecord::Kind::slice)
    return fail(Errc::corrupt, "a slice among the records of objects");
  return record;
}

Result<std::pair<SliceKey, io::ObjectRecord>> decode_slice(std::string_view key,
                                                           std::string_view value) {
  TRY(auto record, io::decode_record(value));
  if (key.size() < 9 + kSliceTail || record.kind != io::ObjectRecord::Kind::slice)
    return fail(Errc::corrupt, "no slice among the slices");
  SliceKey slice;
  slice.bucket = BucketId(read_be(key.substr(1, 8)));
  slice.name = key.substr(9, key.size() - 9 - kSliceTail);
  slice.set = read_be(key.substr(key.size() - 9, 8));
  slice.index = static_cast<std::uint8_t>(key.back());
  if (slice.set != record.slice->set || slice.index != record.slice->index)
    return fail(Errc::corrupt, "a slice under the key of another");
  return std::pair(std::move(slice), std::move(record));
}

/// Remembers that RocksDB has stopped writing.
class ErrorListener final : public rocksdb::EventListener {
 public:
  explicit ErrorListener(std::string drive) : drive_(std::move(drive)) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* status) override {
    const MutexLock lock(mutex_);
    error_ = to_status(*status, "background work", drive_);
  }
  /// Recovery from a full drive is ours (Index::resume). RocksDB's own would start a thread, and
  /// where none is to be had it ends the process.
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* by_itself) override {
    *by_itself = false;
  }
  void OnErrorRecoveryCompleted(rocksdb::Status) override { clear(); }
  void clear() {
    const MutexLock lock(mutex_);
    error_ = {};
  }
  [[nodiscard]] Status error() const {
    const MutexLock lock(mutex_);
    return error_;
  }

 private:
  const std::string drive_;
  mutable Mutex mutex_;
  Status error_ TARN_GUARDED_BY(mutex_);
};

rocksdb::BlockBasedTableOptions table_options(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_size = 16UL * 1024;  // lists scan: twice the keys a second of 4 KiB blocks
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.block_cache = cache;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.format_version = 5;
  return table;
}

}  // namespace

struct IndexMemory::Impl {
  std::shared_ptr<rocksdb::Cache> cache;
  std::shared_ptr<rocksdb::WriteBufferManager> write_buffers;
};

IndexMemory::IndexMemory(std::size_t cache_bytes, std::size_t write_buffer_bytes)
    : impl_(std::make_unique<Impl>()) {
  impl_->cache = rocksdb::NewLRUCache(cache_bytes);
  impl_->write_buffers = std::make_shared<rocksdb::WriteBufferManager>(write_buffer_bytes);
}
IndexMemory::~IndexMemory() = default;

IndexBatch::IndexBatch() : batch_(std::make_unique<rocksdb::WriteBatch>()) {}
IndexBatch::~IndexBatch() = default;
IndexBatch::IndexBatch(IndexBatch&&) noexcept = default;

// WriteBatch::Put only fails on a full batch, which has no limit here.
void IndexBatch::put_record(BucketId bucket, std::string_view name,
                            const io::ObjectRecord& record) {
  static_cast<void>(batch_->Put(record_key(bucket, name), io::encode(record)));
}
void IndexBatch::erase_record(BucketId bucket, std::string_view name) {
  static_cast<void>(batch_->Delete(record_key(bucket, name)));
}
void IndexBatch::put_block_checksums(const io::FileName& file,
                                     const std::vector<std::uint32_t>& checksums) {
  std::string value;
  for (const std::uint32_t crc : checksums) append_be32(value, crc);
  static_cast<void>(batch_->Put(checksums_key(file), value));
}
void IndexBatch::erase_block_checksums(const io::FileName& file) {
  static_cast<void>(batch_->Delete(checksums_key(file)));
}
void IndexBatch::put_replaced(BucketId bucket, std::string_view name, const io::FileName& file) {
  static_cast<void>(batch_->Put(replaced_key(bucket, name, file), ""));
}
void IndexBatch::erase_replaced(BucketId bucket, std::string_view name, const io::FileName& file) {
  static_cast<void>(batch_->Delete(replaced_key(bucket, name, file)));
}
void IndexBatch::put_slice(const SliceKey& key, const io::ObjectRecord& record) {
  static_cast<void>(batch_->Put(slice_key(key), io::encode(record)));
}
void IndexBatch::erase_slice(const SliceKey& key) {
  static_cast<void>(batch_->Delete(slice_key(key)));
}
void IndexBatch::put_unsynced(const io::FileName& file, std::string_view attribute) {
  static_cast<void>(batch_->Put(file_key(kUnsynced, file), rocksdb::Slice(attribute)));
}
void IndexBatch::erase_unsynced(const io::FileName& file) {
  static_cast<void>(batch_->Delete(file_key(kUnsynced, file)));
}
void IndexBatch::put_flag(std::string_view key, std::string_view value) {
  static_cast<void>(batch_->Put(std::string(1, kFlag).append(key), rocksdb::Slice(value)));
}

struct Index::Impl {
  std::string drive;
  std::unique_ptr<rocksdb::Env> env;
  std::shared_ptr<ErrorListener> listener;
  std::unique_ptr<rocksdb::DB> db;

  [[nodiscard]] rocksdb::Options options(const IndexMemory& memory) const {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.env = env.get();
    options.info_log = make_index_logger(drive);
    options.listeners = {listener};
    options.paranoid_checks = true;
    options.compression = rocksdb::kNoCompression;
    options.write_buffer_size = 8U << 20U;
    options.max_background_jobs = 2;
    // A compaction is one turn on the drive: seconds at most.
    options.target_file_size_base = 16U << 20U;
    options.max_bytes_for_level_base = 64U << 20U;
    options.max_compaction_bytes = 64U << 20U;
    options.max_open_files = 256;
    // Threads of RocksDB's own are not our drive's, and where there is none to be had it aborts.
    options.max_file_opening_threads = 1;
    options.stats_dump_period_sec = 0;
    options.stats_persist_period_sec = 0;
    options.keep_log_file_num = 1;
    options.write_buffer_manager = memory.impl().write_buffers;
    options.max_manifest_file_size = 4U << 20U;
    // Recovery after "disk full" is ours to start (resume()), when space is really back.
    options.max_bgerror_resume_count = 0;
    options.table_factory.reset(
        rocksdb::NewBlockBasedTableFactory(table_options(memory.impl().cache)));
    return options;
  }
  rocksdb::Status open_db(const std::string& directory, const IndexMemory& memory,
                          rocksdb::WALRecoveryMode mode) {
    rocksdb::Options its = options(memory);
    its.wal_recovery_mode = mode;
    rocksdb::DB* raw_db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(its, directory, &raw_db);
    db.reset(raw_db);
    return status;
  }
};

Index::Index(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Index::~Index() {
  if (impl_->db) static_cast<void>(impl_->db->Close());
}

Result<std::unique_ptr<Index>> Index::open(const std::string& directory, const std::string& drive,
                                           const IndexMemory& memory,
                                           const std::shared_ptr<HeadTurns>& turns) {
  auto impl = std::make_unique<Impl>();
  impl->drive = drive;
  impl->listener = std::make_shared<ErrorListener>(drive);
  impl->env = make_index_env(turns);
  // Opens first as a crash leaves it: at most the last write torn. Anything worse is logged.
  auto status =
      impl->open_db(directory, memory, rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords);
  if (!status.ok() && (status.IsCorruption() || status.IsInvalidArgument())) {
    obs::log("index").warn("index damaged, recovering to a point in time drive={} err={}", drive,
                           status.ToString());
    status = impl->open_db(directory, memory, rocksdb::WALRecoveryMode::kPointInTimeRecovery);
  }
  // A file that is missing inside the database is damage (a CURRENT that names another MANIFEST),
  // not a drive that fails.
  const bool drive_fails = status.IsIOError() && !status.IsPathNotFound();
  if (!status.ok() && !drive_fails && !status.IsNoSpace()) {
    obs::log("index").warn("index unreadable, set aside drive={} err={}", drive, status.ToString());
    TRY_OK(discard(directory));
    status = impl->open_db(directory, memory, rocksdb::WALRecoveryMode::kPointInTimeRecovery);
  }
  TRY_OK(to_status(status, "open", drive));
  return std::unique_ptr<Index>(new Index(std::move(impl)));
}

Status Index::discard(const std::string& directory) {
  std::error_code problem;
  std::filesystem::remove_all(directory + ".broken", problem);
  std::filesystem::rename(directory, directory + ".broken", problem);
  if (problem)
    return fail(Errc::io, "set damaged index {} aside: {}", directory, problem.message());
  return {};
}

Result<std::optional<io::ObjectRecord>> Index::find(BucketId bucket, std::string_view name) {
  rocksdb::PinnableSlice value;
  const auto status = impl_->db->Get(rocksdb::ReadOptions(), impl_->db->DefaultColumnFamily(),
                                     record_key(bucket, name), &value);
  if (status.IsNotFound()) return std::optional<io::ObjectRecord>();
  TRY_OK(to_status(status, "read", impl_->drive));
  TRY(auto record, decode_named(std::string_view(value.data(), value.size())));
  return std::optional<io::ObjectRecord>(std::move(record));
}

Result<std::optional<io::ObjectRecord>> Index::find_slice(const SliceKey& key) {
  const std::string at = slice_key(key);
  std::string value;
  const auto status = impl_->db->Get(rocksdb::ReadOptions(), at, &value);
  if (status.IsNotFound()) return std::optional<io::ObjectRecord>();
  TRY_OK(to_status(status, "read slice", impl_->drive));
  TRY(auto found, decode_slice(at, value));
  return std::optional<io::ObjectRecord>(std::move(found.second));
}

/// Shows `visit` the slices whose keys are not below `start` and begin with `prefix`.
Status Index::walk_slices(const std::string& start, const std::string& prefix,
                          const SliceVisitor& visit) {
  const std::string end = after_prefix(prefix);
  const rocksdb::Slice bound(end);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &bound;
  const std::unique_ptr<rocksdb::Iterator> at(impl_->db->NewIterator(options));
  for (at->Seek(start); at->Valid(); at->Next()) {
    TRY(const auto found, decode_slice(at->key().ToStringView(), at->value().ToStringView()));
    if (!visit(found.first, found.second)) break;
  }
  return to_status(at->status(), "list slices", impl_->drive);
}

Result<std::vector<std::pair<SliceKey, io::ObjectRecord>>> Index::slices_of(BucketId bucket,
                                                                            std::string_view name,
                                                                            std::uint64_t set) {
  std::vector<std::pair<SliceKey, io::ObjectRecord>> found;
  const std::string prefix = slices_prefix(bucket, name, set);
  TRY_OK(walk_slices(prefix, prefix, [&](const SliceKey& key, const io::ObjectRecord& record) {
    found.emplace_back(key, record);
    return true;
  }));
  return found;
}

Status Index::list_slices(BucketId bucket, const std::optional<SliceKey>& after,
                          const SliceVisitor& visit) {
  const std::string prefix = bucket_prefix(kSlice, bucket);
  std::string start = prefix;
  if (after) start = slice_key(*after) + '\0';  // no key of a slice lies between
  return walk_slices(start, prefix, visit);
}

Status Index::scan_slices(const SliceVisitor& visit) {
  const std::string prefix(1, kSlice);
  return walk_slices(prefix, prefix, visit);
}

Result<std::optional<std::vector<std::uint32_t>>> Index::block_checksums(const io::FileName& file) {
  using Found = std::optional<std::vector<std::uint32_t>>;
  std::string value;
  const auto status = impl_->db->Get(rocksdb::ReadOptions(), checksums_key(file), &value);
  if (status.IsNotFound()) return Found();
  TRY_OK(to_status(status, "read checksums", impl_->drive));
  std::vector<std::uint32_t> checksums;
  for (std::size_t i = 0; i + 4 <= value.size(); i += 4)
    checksums.push_back(static_cast<std::uint32_t>(read_be(std::string_view(value).substr(i, 4))));
  return Found(std::move(checksums));
}

Result<std::vector<io::FileName>> Index::replaced(BucketId bucket, std::string_view name) {
  std::vector<io::FileName> files;
  const std::string prefix = replaced_prefix(bucket, name);
  // Without an end the search goes on after the prefix, over all that was erased there.
  const std::string end = after_prefix(prefix);
  const rocksdb::Slice bound(end);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &bound;
  const std::unique_ptr<rocksdb::Iterator> at(impl_->db->NewIterator(options));
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next())
    files.push_back(file_at_end(at->key().ToStringView()));
  TRY_OK(to_status(at->status(), "read replaced files", impl_->drive));
  return files;
}

Result<bool> Index::is_unsynced(const io::FileName& file) {
  std::string value;
  const auto status = impl_->db->Get(rocksdb::ReadOptions(), file_key(kUnsynced, file), &value);
  if (status.IsNotFound()) return false;
  TRY_OK(to_status(status, "read note of a sync", impl_->drive));
  return true;
}

Result<std::string> Index::flag(std::string_view key) {
  std::string value;
  const auto status =
      impl_->db->Get(rocksdb::ReadOptions(), std::string(1, kFlag).append(key), &value);
  if (status.IsNotFound()) return std::string();
  TRY_OK(to_status(status, "read flag", impl_->drive));
  return value;
}

Status Index::commit(IndexBatch batch) {
  TARN_CHECK(batch.batch_ != nullptr);
  rocksdb::WriteOptions options;
  options.sync = SAFETY("safety.sync_index");
  return to_status(impl_->db->Write(options, batch.batch_.get()), "write", impl_->drive);
}

Status Index::commit_lazily(IndexBatch batch) {
  TARN_CHECK(batch.batch_ != nullptr);
  return to_status(impl_->db->Write(rocksdb::WriteOptions(), batch.batch_.get()), "write",
                   impl_->drive);
}

std::string Index::after_prefix(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xFF) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

Status Index::list(BucketId bucket, std::string_view prefix, std::string_view after,
                   const Visitor& visit) {
  const std::string base = bucket_prefix(kRecord, bucket);
  const std::string wanted = base + std::string(prefix);
  const std::string end = after_prefix(wanted);
  std::string start = wanted;
  if (!after.empty() && base + std::string(after) >= wanted) {
    start = base + std::string(after);
    start += '\0';  // the least name that is greater
  }
  const rocksdb::Slice bound(end);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &bound;
  const std::unique_ptr<rocksdb::Iterator> at(impl_->db->NewIterator(options));
  at->Seek(start);
  while (at->Valid()) {
    TRY(auto record, decode_named(at->value().ToStringView()));
    const Step step = visit(at->key().ToStringView().substr(base.size()), std::move(record));
    if (step.stop) break;
    step.skip_to.empty() ? at->Next() : at->Seek(base + step.skip_to);
  }
  return to_status(at->status(), "list", impl_->drive);
}

Status Index::scan(
    const std::function<void(BucketId, std::string_view, const io::ObjectRecord&)>& visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  options.readahead_size = 2U << 20U;
  const std::unique_ptr<rocksdb::Iterator> at(impl_->db->NewIterator(options));
  const std::string first(1, kRecord);
  for (at->Seek(first); at->Valid() && at->key().starts_with(first); at->Next()) {
    TRY(const auto record, decode_named(at->value().ToStringView()));
    const auto key = at->key().ToStringView();
    visit(BucketId(read_be(key.substr(1, 8))), key.substr(9), record);
  }
  return to_status(at->status(), "scan", impl_->drive);
}

Status Index::scan_replaced(
    const std::function<void(BucketId, std::string_view, const io::FileName&)>& visit) {
  const std::unique_ptr<rocksdb::Iterator> at(impl_->db->NewIterator(rocksdb::ReadOptions()));
  const std::string first(1, kReplaced);
  for (at->Seek(first); at->Valid() && at->key().starts_with(first); at->Next()) {
    const auto key = at->key().ToStringView();
    visit(BucketId(read_be(key.substr(1, 8))), key.substr(9, key.size() - 9 - 13),
          file_at_end(key));
  }
  return to_status(at->status(), "scan replaced files", impl_->drive);
}

Status Index::scan_unsynced(
    const std::function<void(const io::FileName&, std::string_view)>& visit) {
  const std::unique_ptr<rocksdb::Iterator> at(impl_->db->NewIterator(rocksdb::ReadOptions()));
  const std::string first(1, kUnsynced);
  for (at->Seek(first); at->Valid() && at->key().starts_with(first); at->Next())
    visit(file_at_end(at->key().ToStringView()), at->value().ToStringView());
  return to_status(at->status(), "scan files not synced", impl_->drive);
}

Status Index::erase_bucket(BucketId bucket) {
  rocksdb::WriteOptions options;
  options.sync = true;
  rocksdb::WriteBatch batch;
  for (const char kind : {kRecord, kReplaced, kSlice}) {
    const std::string from = bucket_prefix(kind, bucket);
    const std::string to = after_prefix(from);
    // Keys of other kinds do not lie between.
    TARN_CHECK(from < to && (to.front() == kind || to.size() == 1));
    static_cast<void>(batch.DeleteRange(from, to));
  }
  return to_status(impl_->db->Write(options, &batch), "erase bucket", impl_->drive);
}

Status Index::resume() {
  TRY_OK(to_status(impl_->db->Resume(), "resume", impl_->drive));
  impl_->listener->clear();
  return {};
}

Status Index::background_error() const { return impl_->listener->error(); }

}  // namespace tarn::target
