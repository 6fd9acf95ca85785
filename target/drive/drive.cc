#include "target/drive/drive.h"

#include <array>
#include <chrono>

#include "common/base/clock.h"
#include "common/base/memory_limit.h"
#include "common/base/random.h"
#include "common/cluster/place/hrw.h"
#include "common/obs/log.h"
#include "target/drive/drive_identity.h"

namespace tarn::target {
namespace {

constexpr std::size_t kQueueMax = 4096;
constexpr const char* kProbeFile = ".tarn/suspect";
constexpr const char* kAccessFile = ".tarn/access";

/// Time between reads of a byte that memory may not answer for. On a rotational drive each is a
/// seek.
constexpr std::chrono::seconds kReadEvery{4};

spdlog::logger& drive_log() { return obs::log("drive"); }

/// Fails when the drive does not bring the file that names its owner.
Status read_from_medium(io::FileSystem& files) {
  const auto fd = files.open_for_read(kIdentityFile);
  if (!fd) return fd.error().code == Errc::io ? fail(fd.error()) : Status();
  std::array<std::byte, 1> byte{};
  files.drop_cache(fd->get(), 0, 1U << 20U);  // of a part of a page the kernel would drop nothing
  return files.read(fd->get(), byte, 0);
}

bool is_time_to_read() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now) % kReadEvery ==
         std::chrono::seconds(0);
}

}  // namespace

Drive::Drive(Options options, std::unique_ptr<io::FileSystem> files, std::unique_ptr<Index> index,
             io::DriveKind kind, std::shared_ptr<HeadTurns> turns)
    : options_(std::move(options)),
      files_(std::move(files)),
      index_(std::move(index)),
      mount_(io::mount_info(options_.path).value_or(io::MountInfo())),
      kind_(kind),
      turns_(std::move(turns)),
      cache_policy_(options_.cache_policy ? options_.cache_policy
                                          : std::make_shared<CachePolicy>(memory_limit())),
      access_times_(system_clock().wall_time()),
      next_id_(random_u64()),
      threads_(std::make_unique<io::DriveThreads>(
          "drive" + options_.path.substr(options_.path.rfind('/') + 1), options_.threads,
          kQueueMax)),
      space_limits_(options_.space) {}

Drive::~Drive() = default;

Result<std::unique_ptr<Drive>> Drive::open(Options options, const IndexMemory& memory) {
  auto files = std::move(options.files);
  if (options.id.empty()) options.id = options.path;
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
  const auto candidates = drive_candidates(options.places);
  NamePlaces places{std::move(options.buckets), std::move(options.spread_buckets), nullptr};
  if (!candidates.empty())
    places.belongs = [&](const std::string& uname) {
      const auto best = cluster::placement_first(candidates, cluster::placement_digest(uname));
      return options.places[best].path == options.path;
    };
  std::string misplaced;
  const auto take_stock = [&]() -> Result<RecoveryReport> {
    TRY(misplaced, index->flag("foreign"));
    return reconcile(*files, *index, options.dead_buckets, options.evicted, options.path, places);
  };
  auto report = take_stock();
  if (!report && report.error().code == Errc::corrupt) {
    // The index opened, but a block of it is bad: it goes, and is made again from the files.
    drive_log().warn("index has bad blocks, made anew drive={} err={}", options.path,
                     report.error().message);
    index.reset();
    TRY_OK(Index::discard(files->pinned_root() + "/.tarn/index"));
    TRY(index, open_index());
    report = take_stock();
  }
  if (!report) return fail(report.error());
  // The records found decide. The flag is for those that cannot be placed: a bucket that the
  // cluster does not know may come back with its meta store.
  const bool may_hold_misplaced = options.may_hold_misplaced || report->misplaced > 0 ||
                                  (misplaced == "1" && report->unplaced > 0);
  std::unique_ptr<Drive> drive(
      new Drive(std::move(options), std::move(files), std::move(index), kind, turns));
  drive->recovery_ = *report;
  {
    const MutexLock lock(drive->directory_mutex_);
    drive->directory_ = report->last_directory;
    drive->files_in_directory_ = report->files_in_last_directory;
  }
  drive->misplaced_.set(may_hold_misplaced);
  if (may_hold_misplaced != (misplaced == "1")) {
    IndexBatch batch;
    batch.put_flag("foreign", may_hold_misplaced ? "1" : "0");
    TRY_OK(drive->index_->commit(std::move(batch)));
  }
  drive->cache_policy_->note_stored(report->bytes + report->slice_bytes);
  TRY_OK(drive->refresh_space());
  drive->keep_ballast();
  drive->load_access_times();
  return drive;
}

Task<Result<bool>> Drive::clear_misplaced_mark(Belongs belongs) {
  auto work = [&, this]() -> Result<bool> {
    TRY_OK(usable());
    if (!misplaced_.is_set()) return true;
    const auto before = misplaced_.moment();
    if (!before) return false;
    bool all_belong = true;
    TRY_OK(index_->scan([&](BucketId bucket, std::string_view name, const io::ObjectRecord&) {
      all_belong = all_belong && belongs(bucket, name);
    }));
    if (!all_belong) return false;
    return misplaced_.clear(*before, [&] {
      IndexBatch batch;
      batch.put_flag("foreign", "0");
      return index_->commit(std::move(batch));
    });
  };
  co_return co_await threads_->run(work);
}

Task<Status> Drive::probe() {
  turns_->tick();
  auto work = [this]() -> Status {
    if (const Status mounted = files_->check_mounted(); !mounted)
      take_out(mounted.error().message, mounted.error().code != Errc::io);
    TRY_OK(refresh_space());
    if (suspect()) {
      // New files go elsewhere, so no writer would find out whether it takes any: a file system
      // that the kernel has made read-only is out after three of these.
      static_cast<void>(files_->remove(kProbeFile));
      const auto made = files_->create(kProbeFile);
      if (!made) note_write_error(made.error());
      static_cast<void>(files_->remove(kProbeFile));
    }
    // Readers and writers find out by themselves: this is for a drive without any. One bad answer
    // is not enough.
    if (is_time_to_read() && !read_from_medium(*files_))
      if (const Status again = read_from_medium(*files_); !again) take_out(again.error().message);
    if (const Status broken = index_->background_error(); !broken) {
      note_index_error(broken.error());
      TRY_OK(usable());
      // Resumes a full drive that has room again; anything else stays out until an operator looks.
      if (const Status resumed = index_->resume(); !resumed)
        return fail(Errc::unavailable, "index of drive {} takes no writes: {}", options_.path,
                    broken.error().message);
    }
    keep_ballast();
    return usable();
  };
  co_return co_await threads_->run(work);
}

void Drive::expect_misplaced() {
  // A look through the drive that is under way may not clear the mark any more.
  const MisplacedMark::Coming from_now_on(misplaced_);
  threads_->post(
      [this] {
        IndexBatch batch;
        batch.put_flag("foreign", "1");
        if (const Status noted = index_->commit(std::move(batch)); !noted)
          drive_log().warn("flag not kept drive={} err={}", options_.path, noted.error().message);
      },
      [](const Error&) {});
}

/// Work that may not be refused no longer comes once no file of the drive is open.
Status Drive::close(double seconds) {
  if (uploads() != 0 || open_objects() != 0)
    return fail(Errc::timeout, "drive {} is in use still: {} uploads, {} open objects",
                options_.path, uploads(), open_objects());
  Error why{Errc::unavailable, fmt::format("drive {} was detached", options_.path)};
  {
    const MutexLock lock(mutex_);
    if (out_.empty()) out_ = "it was detached";
  }
  turns_->refuse(why);
  threads_->refuse(why);
  if (!threads_->drain(seconds))
    return fail(Errc::timeout, "drive {} does not come to rest", options_.path);
  index_.reset();
  files_->close();
  drive_log().info("drive closed drive={}", options_.path);
  return {};
}

void Drive::forget_bucket_now(BucketId bucket) {
  std::vector<io::FileName> files;
  std::uint64_t bytes = 0;
  const auto collect = [&](std::string_view, const io::ObjectRecord& record) -> Index::Step {
    if (record.kind == io::ObjectRecord::Kind::object) {
      files.push_back(record.file);
      bytes += record.file_bytes();
    }
    return {};
  };
  const auto work = [&]() -> Status {
    TRY_OK(index_->list(bucket, "", "", collect));
    TRY_OK(index_->list_slices(bucket, std::nullopt,
                               [&](const SliceKey&, const io::ObjectRecord& record) {
                                 files.push_back(record.file);
                                 bytes += record.file_bytes();
                                 return true;
                               }));
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
  drive_log().info("destroyed bucket removed drive={} bucket_id={} files={}", options_.path,
                   raw(bucket), files.size());
}

bool Drive::is_forgotten(BucketId bucket) {
  const MutexLock lock(forgotten_mutex_);
  return forgotten_.contains(bucket);
}

void Drive::forget_bucket(BucketId bucket) {
  {
    const MutexLock lock(forgotten_mutex_);
    forgotten_.insert(bucket);
  }
  threads_->post([this, bucket] { forget_bucket_now(bucket); });
}

void Drive::save_cluster_state(std::function<std::string()> json) {
  {
    const MutexLock lock(mutex_);
    cluster_state_ = std::move(json);
  }
  threads_->post([this] {
    const MutexLock one_writer(cluster_file_mutex_);
    std::function<std::string()> newest;
    {
      const MutexLock lock(mutex_);
      newest = std::exchange(cluster_state_, nullptr);
    }
    if (!newest || !usable()) return;  // another thread has written something newer
    if (const Status saved = files_->write_file(".tarn/cluster.json", newest()); !saved)
      drive_log().warn("cluster.json not written drive={} err={}", options_.path,
                       saved.error().message);
  });
}

void Drive::load_access_times() {
  access_times_.set_drive_bytes(space().total);
  const auto saved = files_->read_file(kAccessFile);
  if (!saved) return;  // a new drive, or one of a former version
  if (const Status loaded = access_times_.load(*saved); !loaded)
    drive_log().warn("access times not read, eviction begins anew drive={} err={}", options_.path,
                     loaded.error().message);
}

void Drive::save_access_times() {
  if (!access_times_.has_changed()) return;
  threads_->post([this] {
    const MutexLock one_writer(access_file_mutex_);
    if (!access_times_.has_changed() || !usable()) return;
    if (const Status saved = files_->write_file(kAccessFile, access_times_.encode()); !saved)
      drive_log().warn("access times not written drive={} err={}", options_.path,
                       saved.error().message);
  });
}

void Drive::stop(double seconds) {
  save_access_times();
  if (!hangs() && threads_->drain(seconds)) return;
  drive_log().warn("drive does not answer, left behind drive={}", options_.path);
  threads_->abandon();
}

}  // namespace tarn::target
