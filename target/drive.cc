#include "target/drive.h"

#include <algorithm>
#include <fcntl.h>
#include <list>
#include <map>

#include "common/base/clock.h"
#include "common/base/fail_point.h"
#include "common/base/memory_limit.h"
#include "common/base/random.h"
#include "common/cluster/hrw.h"
#include "common/obs/log.h"

namespace tarn::target {
namespace {

constexpr std::uint32_t kFilesPerDirectory = 1024;
constexpr std::size_t kQueueMax = 4096;
constexpr std::uint64_t kWritebackBytes = 8U << 20U;
constexpr std::size_t kVerifiedFilesMax = 100'000;
constexpr int kOpenAttemptsMax = 16;
constexpr auto kTombstoneKeep = std::chrono::hours(7 * 24);
constexpr const char* kBallastFile = ".tarn/ballast";
constexpr std::uint64_t kBallastBytes = 1U << 20U;
constexpr double kSeekBytes = 2.4e6;  // 12 ms of a drive that reads 200 MB/s

spdlog::logger& drive_log() { return obs::log("drive"); }

/// Runs `work` on the drive's threads in a turn of its own: lists move the head like any reader.
template <class Work>
Task<std::invoke_result_t<Work>> run_in_turn(HeadTurns& turns, io::DriveThreads& threads,
                                             Work work) {
  co_await turns.wait();
  auto result = co_await threads.run(std::move(work));
  turns.done();
  co_return result;
}

}  // namespace

/// The files whose blocks we have verified, most recently used first.
struct Drive::VerifiedCache {
  struct Entry {
    io::FileName file;
    std::shared_ptr<VerifiedBlocks> blocks;
  };
  std::list<Entry> order;
  std::map<io::FileName, std::list<Entry>::iterator> by_file;
};

Drive::Drive(Options options, std::unique_ptr<io::FileSystem> files, std::unique_ptr<Index> index,
             io::DriveKind kind, std::shared_ptr<HeadTurns> turns)
    : options_(std::move(options)),
      files_(std::move(files)),
      index_(std::move(index)),
      mount_(io::mount_info(options_.path).value_or(io::MountInfo())),
      digest_(cluster::placement_digest(options_.path)),
      kind_(kind),
      turns_(std::move(turns)),
      cache_policy_(options_.cache_policy ? options_.cache_policy
                                          : std::make_shared<CachePolicy>(memory_limit())),
      verified_cache_(std::make_unique<VerifiedCache>()),
      next_id_(random_u64()),
      threads_(std::make_unique<io::DriveThreads>(
          "drive" + options_.path.substr(options_.path.rfind('/') + 1), options_.threads,
          kQueueMax)) {}

Drive::~Drive() = default;

Result<std::unique_ptr<Drive>> Drive::open(Options options, const IndexMemory& memory) {
  auto files = std::move(options.files);
  if (!files) {
    TRY(files, io::FileSystem::open(options.path));
  }
  TRY_OK(files->make_directory(".tarn"));
  TRY_OK(files->make_directory(".tarn/index"));
  TRY_OK(files->make_directory("data"));
  // Through the open root: nothing lands below the mount point when the drive is unmounted under
  // us.
  const io::DriveKind kind = options.kind.value_or(io::detect_drive_kind(options.path));
  const bool rotational = kind == io::DriveKind::rotational;
  const auto turns =
      std::make_shared<HeadTurns>(rotational ? HeadTurns::Limits() : HeadTurns::solid());
  const auto open_index = [&] {
    return Index::open(files->pinned_root() + "/.tarn/index", options.path, memory,
                       rotational ? turns : nullptr);
  };
  TRY(auto index, open_index());
  const auto keep_from = system_clock().wall_time() - kTombstoneKeep;
  std::vector<cluster::Candidate> candidates;
  for (const std::string& path : options.all_paths)
    candidates.push_back({cluster::placement_digest(path), 1.0});
  const std::function<bool(const std::string&)> is_home = [&](const std::string& uname) {
    if (candidates.empty()) return true;
    const auto best = cluster::placement_first(candidates, cluster::placement_digest(uname));
    return options.all_paths[best] == options.path;
  };
  std::string foreign;
  const auto take_stock = [&]() -> Result<RecoveryReport> {
    TRY(foreign, index->flag("foreign"));
    return reconcile(*files, *index, options.dead_buckets, keep_from.count(), options.path,
                     is_home);
  };
  auto report = take_stock();
  if (!report && report.error().code == Errc::corrupt) {
    // The index opened, but a block of it is bad: it goes, the files tell all.
    drive_log().warn("index has bad blocks, made anew drive={} err={}", options.path,
                     report.error().message);
    index.reset();
    TRY_OK(Index::discard(files->pinned_root() + "/.tarn/index"));
    TRY(index, open_index());
    report = take_stock();
  }
  if (!report) return fail(report.error());
  // The flag may have been lost with the end of the index: what was adopted tells.
  const bool may_hold_foreign =
      options.may_hold_foreign || foreign == "1" || report->adopted_foreign > 0;
  std::unique_ptr<Drive> drive(
      new Drive(std::move(options), std::move(files), std::move(index), kind, turns));
  drive->recovery_ = *report;
  drive->directory_ = report->last_directory;
  drive->files_in_directory_ = report->files_in_last_directory;
  drive->foreign_ = may_hold_foreign;
  if (may_hold_foreign && foreign != "1") {
    IndexBatch batch;
    batch.put_flag("foreign", "1");
    TRY_OK(drive->index_->commit(std::move(batch)));
  }
  drive->cache_policy_->note_stored(report->bytes);
  TRY_OK(drive->refresh_space());
  drive->keep_ballast();
  return drive;
}

Task<Status> Drive::probe() {
  turns_->tick();
  auto work = [this]() -> Status {
    if (const Status mounted = files_->check_mounted(); !mounted) take_out(mounted.error().message);
    TRY_OK(refresh_space());
    if (const Status broken = index_->background_error(); !broken) {
      note_index_error(broken.error());
      TRY_OK(usable());
      // A full drive that has room again; anything else stays out until someone looks.
      if (const Status resumed = index_->resume(); !resumed)
        return fail(Errc::unavailable, "index of drive {} takes no writes: {}", options_.path,
                    broken.error().message);
    }
    keep_ballast();
    return usable();
  };
  co_return co_await threads_->run(work);
}

io::Space Drive::space() const {
  const std::lock_guard lock(mutex_);
  return space_;
}

double Drive::used_percent() const {
  const io::Space now = space();
  if (now.total == 0) return 100;
  return 100.0 * static_cast<double>(now.total - now.free) / static_cast<double>(now.total);
}

Status Drive::refresh_space() {
  TRY(const io::Space now, files_->space());
  const std::lock_guard lock(mutex_);
  space_ = now;
  return {};
}

Status Drive::check_space(std::uint64_t length, bool above_watermark) {
  TRY_OK(refresh_space());
  const io::Space now = space();
  const SpaceLimits& limits = options_.space;
  const double limit = above_watermark ? limits.out_of_space : limits.high_watermark;
  const auto total = static_cast<double>(now.total);
  const auto reserve = limits.reserve_bytes != 0 ? static_cast<double>(limits.reserve_bytes)
                                                 : total * limits.reserve_percent / 100;
  const double free_after = static_cast<double>(now.free) - static_cast<double>(length);
  if (free_after >= reserve && free_after >= total * (100 - limit) / 100) return {};
  return fail(Errc::no_space,
              "drive {} has {} of {} bytes free, which leaves no room for {} more (limit {} %, "
              "reserve {:.0f} bytes). Delete objects or add drives",
              options_.path, now.free, now.total, length, limit, reserve);
}

/// A file that is given up when the drive is so full that not even a delete can be noted.
void Drive::keep_ballast() {
  if (const auto there = files_->open_for_read(kBallastFile)) return;
  if (!check_space(32 * kBallastBytes, false)) return;
  auto fd = files_->create(kBallastFile);
  if (!fd) return;
  // Really allocated, or it would be no weight.
  const std::vector<std::byte> zeros(kBallastBytes);
  if (!files_->write(fd->get(), zeros, 0)) static_cast<void>(files_->remove(kBallastFile));
}

Status Drive::commit_with_room(const std::function<IndexBatch()>& batch) {
  Status done = index_->commit(batch());
  if (done || done.error().code != Errc::no_space) return done;
  drive_log().warn("drive full, ballast dropped drive={}", options_.path);
  TRY_OK(files_->remove(kBallastFile));
  TRY_OK(index_->resume());
  return index_->commit(batch());
}

Result<io::FileName> Drive::next_file_name() {
  const std::lock_guard lock(directory_mutex_);
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
  return io::FileName{directory_, next_id_++};
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
    note_write_error(fd.error());
    return fail(fd.error());
  }
  auto file = std::make_unique<WorkFile>(*this, name, std::move(*fd));
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
  co_return co_await threads_->run(work, io::DriveThreads::Order::fresh);
}

Status Drive::write_now(WorkFile& file, std::span<const std::byte> bytes, std::uint64_t offset) {
  FAIL_POINT("put.body");
  TRY_OK(usable());
  if (const Status written = files_->write(file.fd_.get(), bytes, offset); !written) {
    note_write_error(written.error());
    return fail(written.error());
  }
  const std::uint64_t end = offset + bytes.size();
  if (end - file.written_back_ >= kWritebackBytes) {
    // So that the sync at the end finds little left, and a body of unknown length cannot fill the
    // drive.
    files_->start_writeback(file.fd_.get(), file.written_back_, end - file.written_back_);
    file.written_back_ = end;
    TRY_OK(check_space(0, true));
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
    drive_log().warn("replaced file not removed drive={} file={} err={}", options_.path,
                     file.path(), done.error().message);
}

Status Drive::remove_now(BucketId bucket, const std::string& name,
                         const io::ObjectRecord& tombstone, bool keep_tombstone) {
  TRY_OK(usable());
  TRY_OK(files_->check_mounted());
  TRY(const auto present, index_->find(bucket, name));
  TRY(auto files, index_->replaced(bucket, name));
  const bool there = present && present->kind == io::ObjectRecord::Kind::object;
  if (there) files.push_back(present->file);
  FAIL_POINT("delete.before_tombstone");
  TRY_OK(commit_with_room([&] {
    IndexBatch batch;
    if (keep_tombstone) {
      batch.put_record(bucket, name, tombstone);
    } else {
      batch.erase_record(bucket, name);
    }
    if (there) batch.put_replaced(bucket, name, present->file);
    return batch;
  }));
  if (there) cache_policy_->note_removed(present->size);
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
    TRY_OK(sync_directory(io::FileName{directory, 0}.directory_path()));
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

Task<Result<std::optional<io::ObjectRecord>>> Drive::find(BucketId bucket, std::string name) {
  auto work = [&, this]() -> Result<std::optional<io::ObjectRecord>> {
    TRY_OK(usable());
    return index_->find(bucket, name);
  };
  co_return co_await threads_->run(work);
}

std::shared_ptr<VerifiedBlocks> Drive::verified_blocks(const io::FileName& file,
                                                       std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  auto& cache = *verified_cache_;
  if (const auto found = cache.by_file.find(file); found != cache.by_file.end()) {
    cache.order.splice(cache.order.begin(), cache.order, found->second);
    return found->second->blocks;
  }
  cache.order.push_front({file, std::make_shared<VerifiedBlocks>(blocks_of(size))});
  cache.by_file[file] = cache.order.begin();
  if (cache.order.size() > kVerifiedFilesMax) {
    cache.by_file.erase(cache.order.back().file);
    cache.order.pop_back();
  }
  return cache.order.front().blocks;
}

Result<std::shared_ptr<OpenObject>> Drive::open_now(BucketId bucket, const std::string& name) {
  for (int attempt = 0; attempt < kOpenAttemptsMax; ++attempt) {
    TRY_OK(usable());
    TRY(auto record, index_->find(bucket, name));
    if (!record || record->kind == io::ObjectRecord::Kind::tombstone)
      return std::shared_ptr<OpenObject>();
    auto fd = files_->open_for_read(record->file.path());
    // Overwritten or deleted between the two lines above: the record is another one now.
    if (!fd && fd.error().code == Errc::not_found) continue;
    if (!fd) {
      if (fd.error().code == Errc::io) ++counters_.read_errors;
      return fail(fd.error());
    }
    TRY(const std::uint64_t size, files_->size(fd->get()));
    if (size != record->size)
      return fail(Errc::corrupt, "file {} of object {} on drive {} has {} bytes instead of {}",
                  record->file.path(), name, options_.path, size, record->size);
    auto found = index_->block_checksums(record->file);
    if (!found && found.error().code != Errc::corrupt) return fail(found.error());
    std::vector<std::uint32_t> checksums;  // none: the file was adopted, and has not been read yet
    if (found && *found && (*found)->size() == blocks_of(record->size))
      checksums = std::move(**found);
    auto verified = verified_blocks(record->file, record->size);
    return std::make_shared<OpenObject>(*this, std::move(*record), std::move(*fd),
                                        std::move(checksums), std::move(verified));
  }
  return fail(Errc::corrupt, "the file of object {} on drive {} is gone though its record is there",
              name, options_.path);
}

Task<Result<std::shared_ptr<OpenObject>>> Drive::open_object(BucketId bucket, std::string name) {
  auto work = [&, this] { return open_now(bucket, name); };
  co_return co_await threads_->run(work, io::DriveThreads::Order::fresh);
}

Task<Status> Drive::adopt(OpenObject& object) {
  co_return co_await run_in_turn(*turns_, *threads_, [&] { return object.adopt(); });
}

Status Drive::read_file(int fd, const io::FileName& file, std::span<std::byte> into,
                        std::uint64_t offset) {
  TRY_OK(usable());
  note_position(file, offset, into.size());
  if (const Status read = files_->read(fd, into, offset); !read) {
    ++counters_.read_errors;
    return read;
  }
  counters_.bytes_read += into.size();
  return {};
}

void Drive::note_position(const io::FileName& file, std::uint64_t offset, std::uint64_t bytes) {
  const std::lock_guard lock(position_mutex_);
  if (file != last_file_ || offset != last_offset_) ++counters_.seeks;
  last_file_ = file;
  last_offset_ = offset + bytes;
}

double Drive::sequential_ratio() const {
  const auto bytes = static_cast<double>(counters_.bytes_read.load());
  const double lost = static_cast<double>(counters_.seeks.load()) * kSeekBytes;
  return bytes == 0 ? 1 : bytes / (bytes + lost);
}

Task<Result<Drive::Listing>> Drive::list(BucketId bucket, std::string prefix, std::string after,
                                         std::size_t limit) {
  auto work = [&, this]() -> Result<Listing> {
    TRY_OK(usable());
    Listing listing;
    const auto visit = [&](std::string_view name, io::ObjectRecord record) -> Index::Step {
      listing.more = listing.entries.size() == limit;
      if (!listing.more) listing.entries.push_back({std::string(name), std::move(record)});
      return {.stop = listing.more, .skip_to = {}};
    };
    TRY_OK(index_->list(bucket, prefix, after, visit));
    return listing;
  };
  co_return co_await run_in_turn(*turns_, *threads_, work);
}

Task<Status> Drive::walk(BucketId bucket, std::string prefix, std::string after,
                         Index::Visitor visit) {
  auto work = [&, this]() -> Status {
    TRY_OK(usable());
    return index_->list(bucket, prefix, after, visit);
  };
  co_return co_await run_in_turn(*turns_, *threads_, work);
}

void Drive::forget_bucket_now(BucketId bucket) {
  std::vector<io::FileName> files;
  std::uint64_t bytes = 0;
  const auto collect = [&](std::string_view, io::ObjectRecord record) -> Index::Step {
    if (record.kind == io::ObjectRecord::Kind::object) {
      files.push_back(record.file);
      bytes += record.size;
    }
    return {};
  };
  const auto work = [&]() -> Status {
    TRY_OK(index_->list(bucket, "", "", collect));
    TRY_OK(index_->erase_bucket(bucket));
    cache_policy_->note_removed(bytes);
    IndexBatch batch;
    for (const io::FileName& file : files) {
      TRY_OK(files_->remove(file.path()));
      batch.erase_block_checksums(file);
    }
    return index_->commit_lazily(std::move(batch));
  };
  if (const Status done = work(); !done) {
    drive_log().warn("destroyed bucket not removed yet drive={} bucket_id={} err={}", options_.path,
                     raw(bucket), done.error().message);
    return;
  }
  drive_log().info("destroyed bucket removed drive={} bucket_id={} objects={}", options_.path,
                   raw(bucket), files.size());
}

void Drive::forget_bucket(BucketId bucket) {
  threads_->post([this, bucket] { forget_bucket_now(bucket); });
}

void Drive::save_cluster_state(std::string json) {
  {
    const std::lock_guard lock(mutex_);
    cluster_state_ = std::move(json);
  }
  threads_->post([this] {
    const std::lock_guard one_writer(cluster_file_mutex_);
    std::string newest;
    {
      const std::lock_guard lock(mutex_);
      newest = std::exchange(cluster_state_, std::string());
    }
    if (newest.empty() || !usable()) return;  // another thread has written something newer
    if (const Status saved = files_->write_file(".tarn/cluster.json", newest); !saved)
      drive_log().warn("cluster.json not written drive={} err={}", options_.path,
                       saved.error().message);
  });
}

void Drive::stop(double seconds) {
  if (threads_->drain(seconds)) return;
  drive_log().warn("drive does not answer, left behind drive={}", options_.path);
  threads_->abandon();
}

}  // namespace tarn::target
