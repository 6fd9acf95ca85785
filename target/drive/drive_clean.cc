// Work of a start that can be done while the drive is in use: removes leftover files, and brings
// records into memory.

#include <algorithm>

#include "common/base/check.h"
#include "common/obs/log.h"
#include "target/drive/drive.h"
#include "target/drive/file_names.h"
#include "target/drive/slice_ids.h"

namespace tarn::target {
namespace {

/// Records that one visit to a drive's thread loads, each with a look for its checksums: about a
/// tenth of a second when they are in memory.
constexpr std::uint64_t kLoadSlice = 10'000;

}  // namespace

bool Drive::is_work_file(const io::FileName& file) {
  const MutexLock lock(work_files_mutex_);
  return work_files_.contains(file);
}

void Drive::forget_work_file(const io::FileName& file) {
  const MutexLock lock(work_files_mutex_);
  const std::size_t erased = work_files_.erase(file);
  TARN_CHECK(erased == 1);
}

Task<Result<KnownFiles>> Drive::known_files(const std::set<BucketId>& dead) {
  auto work = [&, this]() -> Result<KnownFiles> {
    TRY_OK(usable());
    KnownFiles known;
    TRY_OK(index_->scan([&](BucketId bucket, std::string_view, const io::ObjectRecord& record) {
      if (dead.contains(bucket)) known.dead.insert(bucket);
      if (record.kind == io::ObjectRecord::Kind::object) known.named.push_back(record.file);
    }));
    TRY_OK(index_->scan_slices([&](const SliceKey& key, const io::ObjectRecord& record) {
      if (dead.contains(key.bucket)) known.dead.insert(key.bucket);
      known.named.push_back(record.file);
      return true;
    }));
    std::sort(known.named.begin(), known.named.end());
    TRY(const auto names, files_->list("data"));
    for (const std::string& name : names)
      if (const auto directory = directory_in(name)) known.directories.push_back(*directory);
    return known;
  };
  co_return co_await threads_->run(work);
}

/// Returns the leftover that `file` is; nothing when it may be needed. No record named it a moment
/// ago. The rule is that of a start (recovery.cc), but a file that a start would take for an object
/// stays. The order of the looks is what makes it safe: a work file is one until the index knows
/// it, and a file that is synced later has its attribute before its note goes.
Result<std::optional<Leftover>> Drive::judge(const io::FileName& file, const CleanOrder& order) {
  if (is_work_file(file)) return std::nullopt;
  TRY(const bool unsynced, index_->is_unsynced(file));
  if (unsynced) return std::nullopt;
  const auto fd = files_->open_for_read(file.path());
  if (!fd && fd.error().code == Errc::not_found) return std::nullopt;  // gone already
  if (!fd) return fail(fd.error());
  Leftover leftover;
  TRY(leftover.size, files_->size(fd->get()));
  const auto attribute = io::read_attribute(fd->get(), file.path());
  if (!attribute && attribute.error().code == Errc::corrupt) return std::nullopt;
  if (!attribute && attribute.error().code != Errc::not_found) return fail(attribute.error());
  if (!attribute) return order.only.empty() ? std::optional(leftover) : std::nullopt;
  leftover.bucket = attribute->bucket_id;
  leftover.name = attribute->name;
  if (!order.only.empty() && !order.only.contains(leftover.bucket)) return std::nullopt;
  if (order.dead.contains(leftover.bucket)) return std::optional(leftover);
  if (attribute->record.kind == io::ObjectRecord::Kind::slice) {
    // Looks by slices alone, as a start does it: a file without an entry is one that it would
    // adopt.
    TRY(const auto sealed, index_->find_slice(key_of(*attribute)));
    const bool as_new =
        sealed && sealed->file != file && sealed->generation >= attribute->record.generation;
    return as_new ? std::optional(leftover) : std::nullopt;
  }
  TRY(const auto present, index_->find(leftover.bucket, leftover.name));
  const bool newer =
      present && present->file != file && present->generation > attribute->record.generation;
  if (!newer) return std::nullopt;
  // A version that was acknowledged before its sync may be torn by a power cut: then the one before
  // it, which this may be, comes back.
  TRY(const bool newer_unsynced, index_->is_unsynced(present->file));
  return newer_unsynced ? std::nullopt : std::optional(leftover);
}

Result<Cleaned> Drive::clean_now(std::uint32_t directory, const KnownFiles& known,
                                 const CleanOrder& order) {
  TRY_OK(usable());
  TRY_OK(files_->check_mounted());
  const std::string path = io::FileName{directory, 0}.directory_path();
  TRY(const auto names, files_->list(path));
  Cleaned cleaned;
  IndexBatch notes;
  for (const std::string& name : names) {
    const auto id = file_id_in(name);
    if (!id) continue;  // not ours; left alone
    const io::FileName file{directory, *id};
    if (std::binary_search(known.named.begin(), known.named.end(), file)) continue;
    TRY(const auto leftover, judge(file, order));
    if (!leftover) continue;
    TRY_OK(files_->remove(file.path()));
    ++cleaned.files;
    cleaned.bytes += leftover->size;
    notes.erase_block_checksums(file);
    if (!leftover->name.empty()) notes.erase_replaced(leftover->bucket, leftover->name, file);
    obs::log("drive").info("file without a record removed drive={} file={} bytes={} object={}",
                           options_.path, file.path(), leftover->size, leftover->name);
  }
  if (cleaned.files == 0) return cleaned;
  // A DELETE unlinks what these notes name: not before the unlink is durable they may go.
  TRY_OK(sync_directory(path));
  TRY_OK(index_->commit_lazily(std::move(notes)));
  return cleaned;
}

Task<Result<Cleaned>> Drive::clean(std::uint32_t directory, const KnownFiles& known,
                                   const CleanOrder& order) {
  auto work = [&, this] { return clean_now(directory, known, order); };
  co_return co_await threads_->run(work);
}

Task<Result<Loaded>> Drive::load_index(BucketId bucket, std::string after) {
  Loaded loaded;
  std::uint64_t seen = 0;
  Status read;
  const auto visit = [&, this](std::string_view name,
                               const io::ObjectRecord& record) -> Index::Step {
    if (record.kind == io::ObjectRecord::Kind::object) {
      const auto checksums = index_->block_checksums(record.file);
      if (!checksums) read = fail(checksums.error());
      ++loaded.objects;
      loaded.bytes += record.size;
    }
    loaded.more = ++seen == kLoadSlice;
    if (loaded.more) loaded.next = std::string(name);
    return {.stop = loaded.more || !read, .skip_to = {}};
  };
  CO_TRY_OK(co_await walk(bucket, "", std::move(after), visit));
  CO_TRY_OK(read);
  co_return loaded;
}

Task<Result<std::string>> Drive::note(std::string key) {
  auto work = [&, this]() -> Result<std::string> {
    TRY_OK(usable());
    return index_->flag(key);
  };
  co_return co_await threads_->run(work);
}

Task<Status> Drive::keep_note(std::string key, std::string value) {
  auto work = [&, this]() -> Status {
    TRY_OK(usable());
    IndexBatch batch;
    batch.put_flag(key, value);
    return index_->commit_lazily(std::move(batch));
  };
  co_return co_await threads_->run(work);
}

}  // namespace tarn::target
