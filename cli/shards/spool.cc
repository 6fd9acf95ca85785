#include "cli/shards/spool.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/random.h"

namespace tarn::cli {
namespace {

constexpr std::uint64_t kSegmentBytes = 64ULL << 20U;

Status write_at(int fd, std::span<const std::byte> bytes, std::uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(errno, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    at += static_cast<std::uint64_t>(written);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Spool>> Spool::create(std::string directory) {
  const char* const set = std::getenv("TMPDIR");
  if (directory.empty()) directory = set != nullptr && *set != '\0' ? set : "/tmp";
  std::unique_ptr<Spool> spool(new Spool(std::move(directory)));
  TRY(const UniqueFd tried, spool->make_file());
  return spool;
}

Result<UniqueFd> Spool::make_file() const {
  UniqueFd fd(::open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid()) return fd;
  // Some file systems cannot make files without a name: the name goes at once.
  const std::string path = directory_ + "/.tarn-spool-" + random_id(12);
  fd = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid())
    return fail_errno(errno, fmt::format("make a temporary file in '{}' (TMPDIR chooses another "
                                         "place)",
                                         directory_));
  ::unlink(path.c_str());
  return fd;
}

Result<std::uint64_t> Spool::room() const {
  struct statvfs info{};
  if (::statvfs(directory_.c_str(), &info) != 0) return fail_errno(errno, "statvfs " + directory_);
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

Status Spool::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t index = size_ / kSegmentBytes;
    const std::uint64_t within = size_ % kSegmentBytes;
    std::shared_ptr<Segment> segment;
    {
      const MutexLock lock(mutex_);
      if (const auto found = segments_.find(index); found != segments_.end())
        segment = found->second;
    }
    if (!segment) {
      segment = std::make_shared<Segment>();
      TRY(segment->fd, make_file());
      const MutexLock lock(mutex_);
      segments_[index] = segment;
    }
    const auto chunk = bytes.first(std::min<std::uint64_t>(bytes.size(), kSegmentBytes - within));
    if (const Status written = write_at(segment->fd.get(), chunk, within); !written)
      return fail(written.error().code,
                  "{}: spool into '{}': free some room there, set TMPDIR to a larger file system, "
                  "or make --size, --hold or -j smaller",
                  written.error().message, directory_);
    size_ += chunk.size();
    bytes = bytes.subspan(chunk.size());
  }
  return {};
}

void Spool::release(SpooledRange range) {
  const MutexLock lock(mutex_);
  while (range.bytes > 0) {
    const std::uint64_t index = range.offset / kSegmentBytes;
    const std::uint64_t here = std::min(range.bytes, kSegmentBytes - range.offset % kSegmentBytes);
    if (const auto found = segments_.find(index); found != segments_.end()) {
      found->second->released += here;
      if (found->second->released == kSegmentBytes) segments_.erase(found);
    }
    range.offset += here;
    range.bytes -= here;
  }
}

Status Spool::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const std::uint64_t within = offset % kSegmentBytes;
    auto chunk = into.first(std::min<std::uint64_t>(into.size(), kSegmentBytes - within));
    std::shared_ptr<Segment> segment;
    {
      const MutexLock lock(mutex_);
      if (const auto found = segments_.find(offset / kSegmentBytes); found != segments_.end())
        segment = found->second;
    }
    if (!segment) return fail(Errc::internal, "byte {} of the spool is gone", offset);
    offset += chunk.size();
    into = into.subspan(chunk.size());
    std::uint64_t at = within;
    while (!chunk.empty()) {
      const ssize_t got =
          ::pread(segment->fd.get(), chunk.data(), chunk.size(), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail_errno(errno, "read the spool in " + directory_);
      if (got == 0) return fail(Errc::internal, "the spool in {} is short", directory_);
      chunk = chunk.subspan(static_cast<std::size_t>(got));
      at += static_cast<std::uint64_t>(got);
    }
  }
  return {};
}

ShardBody::ShardBody(Spool& spool, ShardPlan plan) : spool_(spool), plan_(std::move(plan)) {}

ShardBody::~ShardBody() {
  for (const SpooledRange& range : plan_.ranges) spool_.release(range);
}

bool ShardBody::rewind() {
  in_prologue_ = range_ = in_range_ = in_end_ = 0;
  return true;
}

Result<std::size_t> ShardBody::read(std::span<std::byte> into) {
  std::size_t filled = 0;
  const auto take_text = [&](const std::string& text, std::uint64_t& at) {
    const auto chunk = std::min<std::uint64_t>(text.size() - at, into.size() - filled);
    if (chunk == 0) return;
    std::memcpy(into.data() + filled, text.data() + at, chunk);
    at += chunk;
    filled += chunk;
  };
  take_text(plan_.prologue, in_prologue_);
  while (filled < into.size() && range_ < plan_.ranges.size()) {
    const SpooledRange& range = plan_.ranges[range_];
    const auto chunk = std::min<std::uint64_t>(range.bytes - in_range_, into.size() - filled);
    TRY_OK(spool_.read(range.offset + in_range_, into.subspan(filled, chunk)));
    in_range_ += chunk;
    filled += chunk;
    if (in_range_ < range.bytes) continue;
    ++range_;
    in_range_ = 0;
  }
  take_text(end_, in_end_);
  return filled;
}

}  // namespace tarn::cli
