// Files that are written and files that are taken away. How a written one becomes an object stands
// in publish.cc.

#include <algorithm>
#include <set>
#include <vector>

#include "common/api/custom_metadata.h"
#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/drive.h"

namespace tarn::target {
namespace {

constexpr std::uint32_t kFilesPerDirectory = 1024;
constexpr std::uint64_t kWritebackBytes = 8U << 20U;
constexpr std::uint64_t kLateBytes = 1U << 30U;  // most that nosync may leave in memory

/// True for the mark of a write through, which goes upstream when this is durable.
bool is_write_mark(const io::ObjectRecord& tombstone) {
  return std::any_of(tombstone.custom.begin(), tombstone.custom.end(),
                     [](const auto& each) { return each.first == api::kWritingKey; });
}

}  // namespace

Result<io::FileName> Drive::next_file_name() {
  const MutexLock lock(directory_mutex_);
  if (directory_ == 0 || files_in_directory_ >= kFilesPerDirectory) {
    // Files written together lie together: one directory is filled after another.
    const std::uint32_t next = directory_ + 1;
    const std::string path = io::FileName{next, 0}.directory_path();
    TRY_OK(files_->make_directory(path));
    TRY_OK(sync_directory("data"));
    directory_ = next;
    files_in_directory_ = 0;
  }
  ++files_in_directory_;
  const io::FileName name{directory_, next_id_++};
  const MutexLock work_files(work_files_mutex_);
  // Two uploads into one file would mix their bytes.
  const bool is_new = work_files_.insert(name).second;
  TARN_CHECK(is_new);
  return name;
}

Result<std::unique_ptr<WorkFile>> Drive::create_now(std::optional<std::uint64_t> length,
                                                    bool above_watermark) {
  TRY_OK(usable());
  TRY_OK(files_->check_mounted());
  TRY_OK(check_space(length.value_or(0), above_watermark));
  if (suspect() && !above_watermark)
    return fail(Errc::unavailable, "a write to drive {} failed a moment ago", options_.path);
  TRY(const io::FileName name, next_file_name());
  auto fd = files_->create(name.path());
  if (!fd) {
    forget_work_file(name);
    note_write_error(fd.error());
    return fail(fd.error());
  }
  auto file = std::make_unique<WorkFile>(*this, name, std::move(*fd));
  if (kind_ == io::DriveKind::rotational)
    file->write_behind_ = std::make_shared<WriteBehind>(*this);
  if (!length) return file;
  if (const Status reserved = files_->preallocate(file->fd_.get(), *length); !reserved) {
    note_write_error(reserved.error());
    return fail(reserved.error());
  }
  return file;
}

Task<Result<std::unique_ptr<WorkFile>>> Drive::create(std::optional<std::uint64_t> length,
                                                      bool above_watermark) {
  auto work = [this, length, above_watermark] { return create_now(length, above_watermark); };
  auto file = co_await threads_->run(work, io::DriveThreads::Order::fresh);
  if (file && !takes_files())
    co_return fail(Errc::unavailable, "drive {} takes no new files: it goes", options_.path);
  co_return file;
}

Status Drive::write_now(WorkFile& file, std::span<const std::byte> bytes, std::uint64_t offset) {
  FAIL_POINT("put.body");
  // Readers see a published file, and its checksums have been taken.
  TARN_CHECK(!file.published_);
  TRY_OK(usable());
  if (const Status written = files_->write(file.fd_.get(), bytes, offset); !written) {
    note_write_error(written.error());
    return fail(written.error());
  }
  const std::uint64_t end = offset + bytes.size();
  file.end_ = std::max(file.end_, end);
  if (file.write_behind_) file.write_behind_->written(file.fd_.get(), end);
  if (end - file.written_back_ < kWritebackBytes) return {};
  // Leaves the sync at the end little to do, and keeps a body of unknown length from filling the
  // drive.
  if (!file.write_behind_) start_writeback(file, end);
  file.written_back_ = end;
  return check_space(0, true);
}

void Drive::start_writeback(const WorkFile& file, std::uint64_t end) {
  const std::uint64_t late = file.late_ ? kLateBytes : 0;
  const std::uint64_t from = file.written_back_ - std::min(file.written_back_, late);
  const std::uint64_t to = end - std::min(end, late);
  if (to > from) files_->start_writeback(file.fd_.get(), from, to - from);
}

Task<Status> Drive::room(WorkFile& file) {
  if (!file.write_behind_) co_return Status();
  co_return co_await file.write_behind_->room();
}

Status Drive::write_back(int fd, std::uint64_t offset, std::uint64_t bytes) {
  TRY_OK(usable());
  if (const Status written = files_->write_back(fd, offset, bytes); !written) {
    // The kernel has reported it now, and would not report it to the sync that follows.
    ++counters_.sync_errors;
    take_out(written.error().message);
    return fail(Errc::unavailable, "{}", written.error().message);
  }
  return {};
}

io::DriveThreads::Pending<Status> Drive::write(WorkFile& file, std::span<const std::byte> bytes,
                                               std::uint64_t offset) {
  return threads_->start([this, &file, bytes, offset] { return write_now(file, bytes, offset); });
}

/// Unlinks a replaced file. Its note stays in the index until the unlink is durable: a DELETE must
/// know.
void Drive::reap(BucketId bucket, const std::string& name, const io::FileName& file) {
  const auto work = [&]() -> Status {
    TRY_OK(files_->remove(file.path()));
    TRY_OK(sync_directory(file.directory_path()));
    IndexBatch batch;
    batch.erase_replaced(bucket, name, file);
    return index_->commit_lazily(std::move(batch));
  };
  if (const Status done = work(); !done && usable())
    obs::log("drive").warn("replaced file not removed drive={} file={} err={}", options_.path,
                           file.path(), done.error().message);
}

Status Drive::remove_now(BucketId bucket, const std::string& name,
                         const io::ObjectRecord& tombstone, bool keep_tombstone) {
  TARN_CHECK(!keep_tombstone || tombstone.kind == io::ObjectRecord::Kind::tombstone);
  TRY_OK(usable());
  TRY_OK(files_->check_mounted());
  TRY(const auto present, index_->find(bucket, name));
  TRY(auto files, index_->replaced(bucket, name));
  const bool there = present && present->kind == io::ObjectRecord::Kind::object;
  if (there) files.push_back(present->file);
  FAIL_POINT("delete.before_tombstone");
  const bool synced = !is_write_mark(tombstone) || SAFETY("safety.write_mark_synced");
  const auto change = [&] {
    IndexBatch batch;
    if (keep_tombstone) {
      batch.put_record(bucket, name, tombstone);
    } else {
      batch.erase_record(bucket, name);
    }
    if (there) batch.put_replaced(bucket, name, present->file);
    return batch;
  };
  TRY_OK(synced ? commit_with_room(change) : index_->commit_lazily(change()));
  if (there) cache_policy_->note_removed(present->file_bytes());
  FAIL_POINT("delete.before_unlink");
  // Without these two steps a deleted file comes back after a power cut when the index is lost as
  // well.
  std::set<std::uint32_t> directories;
  for (const io::FileName& file : files) {
    if (SAFETY("safety.delete_unlink")) TRY_OK(files_->remove(file.path()));
    directories.insert(file.directory);
  }
  FAIL_POINT("delete.before_dir_fsync");
  for (const std::uint32_t directory : directories)
    if (synced) TRY_OK(sync_directory(io::FileName{directory, 0}.directory_path()));
  IndexBatch clean;
  for (const io::FileName& file : files) {
    clean.erase_replaced(bucket, name, file);
    clean.erase_block_checksums(file);
  }
  static_cast<void>(index_->commit_lazily(std::move(clean)));  // a restart does it as well
  FAIL_POINT("delete.before_reply");
  return {};
}

Task<Status> Drive::remove(BucketId bucket, std::string name, io::ObjectRecord tombstone,
                           bool keep_tombstone) {
  auto work = [&, this] { return remove_now(bucket, name, tombstone, keep_tombstone); };
  co_return co_await threads_->run(work);
}

}  // namespace tarn::target
