// The way from a work file to an object: the commit order (docs/decisions/002), and what a crash
// leaves after each of its steps.

#include <algorithm>
#include <set>
#include <string>
#include <unistd.h>

#include "common/api/upstream_props.h"
#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/drive.h"

namespace tarn::target {
namespace {

// More than this waits for its sync before it is acknowledged: what a crash may cost, and what a
// start may have to read, is bounded.
constexpr std::uint64_t kUnsyncedBytesMax = 1U << 30U;
constexpr std::size_t kUnsyncedFilesMax = 256;
constexpr std::size_t kSyncingMax = 2;  // threads; the other ones go on serving
// Files that are synced together share the journal's commits, the directory's and the index's.
constexpr std::size_t kTogetherFilesMax = 32;
constexpr std::uint64_t kTogetherBytesMax = 64U << 20U;

bool replaces(const Drive::Publication& publication) {
  return publication.old && publication.old->kind == io::ObjectRecord::Kind::object;
}

}  // namespace

/// The files' part of their publication. State of each that a crash leaves after each step:
Status Drive::write_durably(const std::vector<Written>& files) {
  const auto sync_all = [&]() -> Status {
    for (const Written& file : files)
      if (SAFETY("safety.fsync_file")) TRY_OK(sync_or_take_out(file.fd));
    return {};
  };
  // A file without attribute: the next start removes it.
  TRY_OK(sync_all());
  FAIL_POINT("put.before_attribute");
  // The bytes are durable before the attribute can be: a file that has one is complete, and may be
  // adopted without reading it (docs/decisions/002).
  for (const Written& file : files) {
    if (const Status set = files_->set_attribute(file.fd, io::encode(file.attribute)); !set) {
      note_write_error(set.error());
      return set;
    }
  }
  // A complete file, maybe with its attribute, that was not acknowledged: removed or adopted.
  FAIL_POINT("put.before_fsync");
  TRY_OK(sync_all());
  FAIL_POINT("put.before_dir_fsync");
  std::set<std::string> directories;
  for (const Written& file : files) directories.insert(file.attribute.record.file.directory_path());
  for (const std::string& directory : directories) TRY_OK(sync_directory(directory));
  return {};
}

/// Conditions under which a record may name `file`: it is read back as the record describes it.
void Drive::check_publication(const WorkFile& file, const Publication& publication) {
  const io::ObjectRecord& record = publication.attribute.record;
  TARN_CHECK(!file.published_ && file.is_open());
  TARN_CHECK(record.kind == io::ObjectRecord::Kind::object && !record.slice);
  TARN_CHECK(record.file == file.name_);
  TARN_CHECK(record.file_bytes() == file.end_);
  TARN_CHECK(publication.checksums.size() == blocks_of(record.file_bytes()));
}

IndexBatch Drive::batch_for(const WorkFile& file, const Publication& publication) {
  const io::ObjectAttribute& attribute = publication.attribute;
  IndexBatch batch;
  batch.put_record(attribute.bucket_id, attribute.name, attribute.record);
  batch.put_block_checksums(file.name_, publication.checksums);
  if (replaces(publication)) {
    // The file that it replaces is going to be unlinked.
    TARN_CHECK(publication.old->file != file.name_);
    batch.put_replaced(attribute.bucket_id, attribute.name, publication.old->file);
    batch.erase_block_checksums(publication.old->file);
  }
  if (publication.misplaced) batch.put_flag("foreign", "1");
  return batch;
}

/// To be held until the record is in the index.
std::unique_ptr<MisplacedMark::Coming> Drive::coming(const Publication& publication) {
  return publication.misplaced ? std::make_unique<MisplacedMark::Coming>(misplaced_) : nullptr;
}

/// No later start may find the file: it could come back over what is acknowledged after it.
Status Drive::take_back(WorkFile& file, const Status& why) {
  static_cast<void>(files_->remove(file.name_.path()));
  if (not_taken_out()) static_cast<void>(sync_directory(file.name_.directory_path()));
  file.fd_.reset();
  if (const Status error = index_->background_error(); !error) note_index_error(error.error());
  return why;
}

/// Its bucket was there when the write began. The bucket's removal may have erased the record
/// without having seen it: the file is ours to remove.
void Drive::remove_if_forgotten(const io::FileName& file, BucketId bucket) {
  if (!is_forgotten(bucket)) return;
  static_cast<void>(files_->remove(file.path()));
  forget_bucket(bucket);
}

void Drive::note_published(WorkFile& file, const Publication& publication) {
  file.published_ = true;
  const std::uint64_t bytes = publication.attribute.record.file_bytes();
  cache_policy_->note_stored(bytes);
  const io::ObjectAttribute& attribute = publication.attribute;
  if (api::has_upstream(attribute.bucket))
    access_times_.note(attribute.bucket_id, attribute.name, system_clock().wall_time());
  if (replaces(publication)) cache_policy_->note_removed(publication.old->file_bytes());
  const auto verified = verified_files_.of(file.name_, bytes);
  for (std::size_t block = 0; block < publication.checksums.size(); ++block)
    verified->set(block, true);
  remove_if_forgotten(file.name_, publication.attribute.bucket_id);
}

Status Drive::prepare_now(WorkFile& file, const Publication& publication) {
  check_publication(file, publication);
  TRY_OK(usable());
  TRY_OK(files_->check_mounted());
  if (publication.attribute.record.coding) TRY_OK(raise_format());
  const Status written = write_durably({{file.fd_.get(), publication.attribute}});
  return written ? written : take_back(file, written);
}

Status Drive::commit_now(WorkFile& file, const Publication& publication) {
  check_publication(file, publication);
  const io::ObjectAttribute& attribute = publication.attribute;
  const auto commit = [&]() -> Status {
    // From here on a crash leaves a file that the next start adopts: the object is there, wholly.
    FAIL_POINT("put.before_index");
    const auto mark = coming(publication);
    return index_->commit(batch_for(file, publication));
  };
  if (const Status committed = commit(); !committed) return take_back(file, committed);
  note_published(file, publication);
  file.fd_.reset();
  if (replaces(publication))
    threads_->post([this, bucket = attribute.bucket_id, name = attribute.name,
                    replaced = publication.old->file] { reap(bucket, name, replaced); });
  return {};
}

Status Drive::publish_now(WorkFile& file, const Publication& publication) {
  TRY_OK(prepare_now(file, publication));
  return commit_now(file, publication);
}

/// `durability: nosync`: the index learns of the object first, with a note that the file is not
/// durable yet, and the steps above follow. The end of the process loses nothing. After a power cut
/// the next start reads the files that are noted. One that is torn goes, and the version before it,
/// which is not unlinked until the steps are done, comes back (recovery.cc).
Status Drive::publish_unsynced(WorkFile& file, Publication publication) {
  {
    const MutexLock lock(unsynced_mutex_);
    if (unsynced_bytes_ > kUnsyncedBytesMax || unsynced_.size() > kUnsyncedFilesMax)
      publication.durability = cluster::Durability::full;
  }
  if (publication.durability != cluster::Durability::nosync) return publish_now(file, publication);
  check_publication(file, publication);
  TRY_OK(usable());
  TRY_OK(files_->check_mounted());
  if (publication.attribute.record.coding) TRY_OK(raise_format());
  const auto mark = coming(publication);
  IndexBatch batch = batch_for(file, publication);
  batch.put_unsynced(file.name_, io::encode(publication.attribute));
  if (const Status committed = index_->commit_lazily(std::move(batch)); !committed)
    return take_back(file, committed);
  note_published(file, publication);
  sync_later(file.fd_.release(), file.name_, std::move(publication));
  return {};
}

void Drive::sync_later(int fd, const io::FileName& name, Publication publication) {
  TARN_CHECK(fd >= 0);
  const MutexLock lock(unsynced_mutex_);
  unsynced_bytes_ += publication.attribute.record.file_bytes();
  unsynced_.push_back({UniqueFd(fd), name, std::move(publication)});
  if (syncing_ == kSyncingMax) return;
  ++syncing_;
  threads_->post([this] { sync_waiting(); });
}

void Drive::sync_waiting() {
  MutexLock lock(unsynced_mutex_);
  while (!unsynced_.empty()) {
    std::vector<Unsynced> next;
    std::uint64_t bytes = 0;
    do {
      bytes += unsynced_.front().publication.attribute.record.file_bytes();
      next.push_back(std::move(unsynced_.front()));
      unsynced_.pop_front();
    } while (!unsynced_.empty() && next.size() < kTogetherFilesMax && bytes < kTogetherBytesMax);
    sync_begins(next);
    lock.unlock();
    static_cast<void>(sync_some(next));
    lock.lock();
    sync_ends(next);
  }
  TARN_CHECK(syncing_ > 0 && syncing_ <= kSyncingMax);
  --syncing_;
}

void Drive::sync_begins(std::span<const Unsynced> files) {
  for (const Unsynced& file : files) {
    const bool is_new = being_synced_.insert(file.name).second;
    TARN_CHECK(is_new);
  }
}

void Drive::sync_ends(std::span<const Unsynced> files) {
  for (const Unsynced& file : files) {
    const std::uint64_t bytes = file.publication.attribute.record.file_bytes();
    TARN_CHECK(bytes <= unsynced_bytes_);
    unsynced_bytes_ -= bytes;
    const std::size_t erased = being_synced_.erase(file.name);
    TARN_CHECK(erased == 1);
  }
  TARN_CHECK(unsynced_bytes_ == 0 || !unsynced_.empty() || !being_synced_.empty());
  synced_.notify_all();
}

Status Drive::sync_some(std::span<const Unsynced> files) {
  Status done = sync_now(files);
  if (!done && files.size() > 1 && usable()) {
    // One of them is to blame, the other files are not.
    for (const Unsynced& file : files) done = sync_now({&file, 1});
  }
  return done;
}

Status Drive::sync_now(std::span<const Unsynced> files) {
  const auto work = [&]() -> Status {
    TRY_OK(not_taken_out());
    FAIL_POINT("nosync.before_sync");
    std::vector<Written> written;
    IndexBatch batch;
    for (const Unsynced& file : files) {
      const io::ObjectAttribute& attribute = file.publication.attribute;
      // All of them on their way before the first is waited for.
      if (files.size() > 1)
        files_->start_writeback(file.fd.get(), 0, attribute.record.file_bytes());
      written.push_back({file.fd.get(), attribute});
      batch.erase_unsynced(file.name);
    }
    TRY_OK(write_durably(written));
    return index_->commit(std::move(batch));
  };
  const Status done = work();
  for (const Unsynced& file : files) {
    const io::ObjectAttribute& attribute = file.publication.attribute;
    if (!done && files.size() == 1)
      obs::log("drive").error("file not synced drive={} file={} err={}", options_.path,
                              file.name.path(), done.error().message);
    if (done && replaces(file.publication))
      reap(attribute.bucket_id, attribute.name, file.publication.old->file);
  }
  return done;
}

Status Drive::settle(const io::FileName& file) {
  MutexLock lock(unsynced_mutex_);
  const auto waits = std::find_if(unsynced_.begin(), unsynced_.end(),
                                  [&](const Unsynced& each) { return each.name == file; });
  if (waits != unsynced_.end()) {
    // Here and now: those who sync may themselves wait for a thread that waits here.
    std::vector<Unsynced> alone;
    alone.push_back(std::move(*waits));
    unsynced_.erase(waits);
    sync_begins(alone);
    lock.unlock();
    Status done = sync_some(alone);
    lock.lock();
    sync_ends(alone);
    return done;
  }
  while (being_synced_.contains(file)) synced_.wait(lock);
  return {};
}

Task<Status> Drive::prepare(WorkFile& file, const Publication& publication) {
  if (file.write_behind_) CO_TRY_OK(co_await file.write_behind_->finish(file.fd_.get()));
  auto work = [&, this] { return prepare_now(file, publication); };
  co_return co_await threads_->run(work);
}

Task<Status> Drive::commit_prepared(WorkFile& file, const Publication& publication) {
  auto work = [&, this]() -> Status {
    TRY_OK(usable());
    return commit_now(file, publication);
  };
  co_return co_await threads_->run(work);
}

Task<void> Drive::drop_prepared(WorkFile& file) {
  auto work = [&, this]() -> Status { return take_back(file, Status()); };
  static_cast<void>(co_await threads_->run(work));
}

Task<Status> Drive::make_durable(io::ObjectRecord record) {
  if (record.kind != io::ObjectRecord::Kind::object) co_return Status();
  {
    const MutexLock lock(unsynced_mutex_);
    if (unsynced_.empty() && being_synced_.empty()) co_return Status();
  }
  auto work = [&, this]() -> Status {
    TRY_OK(settle(record.file));
    return usable();  // not when that sync, of whatever caller, has failed
  };
  co_return co_await threads_->run(work);
}

Task<Status> Drive::publish(WorkFile& file, Publication publication) {
  if (file.write_behind_ && publication.durability != cluster::Durability::nosync)
    CO_TRY_OK(co_await file.write_behind_->finish(file.fd_.get()));
  auto work = [&, this] {
    return publication.durability == cluster::Durability::nosync
               ? publish_unsynced(file, std::move(publication))
               : publish_now(file, publication);
  };
  co_return co_await threads_->run(work);
}

}  // namespace tarn::target
