// Looking records up, opening and reading files, walking the index.

#include "common/base/fail_point.h"
#include "target/drive/drive.h"
#include "target/drive/run_in_turn.h"

namespace tarn::target {
namespace {

constexpr int kDriveReadOpenAttemptsMax = 16;
constexpr double kSeekBytes = 2.4e6;  // 12 ms of a drive that reads 200 MB/s

}  // namespace

Task<Result<std::optional<io::ObjectRecord>>> Drive::find(BucketId bucket, std::string name) {
  auto work = [&, this]() -> Result<std::optional<io::ObjectRecord>> {
    TRY_OK(usable());
    return index_->find(bucket, name);
  };
  co_return co_await threads_->run(work);
}

/// None when the file was adopted, and has not been read yet.
Result<std::vector<std::uint32_t>> Drive::checksums_of(const io::ObjectRecord& record) {
  auto found = index_->block_checksums(record.file);
  if (!found && found.error().code != Errc::corrupt) return fail(found.error());
  if (found && *found && (*found)->size() == blocks_of(record.file_bytes()))
    return std::move(**found);
  return std::vector<std::uint32_t>();
}

Result<std::shared_ptr<OpenObject>> Drive::open_now(BucketId bucket, const std::string& name) {
  FAIL_POINT("get.before_open");
  for (int attempt = 0; attempt < kDriveReadOpenAttemptsMax; ++attempt) {
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
    const std::uint64_t file_bytes = record->file_bytes();
    if (size != file_bytes)
      return fail(Errc::corrupt, "file {} of object {} on drive {} has {} bytes instead of {}",
                  record->file.path(), name, options_.path, size, file_bytes);
    TRY(auto checksums, checksums_of(*record));
    auto verified = verified_files_.of(record->file, file_bytes);
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
  const MutexLock lock(position_mutex_);
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
                         Index::Visitor visit, TurnFor purpose) {
  auto work = [&, this]() -> Status {
    TRY_OK(usable());
    return index_->list(bucket, prefix, after, visit);
  };
  co_return co_await run_in_turn(*turns_, *threads_, work, purpose);
}

}  // namespace tarn::target
