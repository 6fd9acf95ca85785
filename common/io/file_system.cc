#include "common/io/file_system.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <dirent.h>

#include "common/base/process.h"
#include "common/io/object_attribute.h"

namespace tarn::io {
namespace {

constexpr long kCachestatCall = 451;  // <asm/unistd.h> of Debian 12 does not name it yet

struct CachestatRange {
  std::uint64_t offset;
  std::uint64_t length;
};
struct Cachestat {
  std::uint64_t cache;
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

/// Number of readers and writers that the free descriptors allow; the index needs some, too.
Result<UniqueFd> within_limit(UniqueFd fd) {
  if (fd_is_within_limit(fd.get(), FdUse::data_file)) return fd;
  return fail(Errc::unavailable,
              "too many open files (limit: ulimit -n of the process); try again later");
}

std::uint64_t pages_of(std::uint64_t offset, std::uint64_t bytes) {
  static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return (offset + bytes + page - 1) / page - offset / page;
}

bool is_resident_by_mincore(int fd, std::uint64_t offset, std::uint64_t bytes) {
  static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t start = offset / page * page;
  const std::uint64_t length = offset + bytes - start;
  void* map = mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(start));
  if (map == MAP_FAILED) return false;
  std::vector<unsigned char> states(pages_of(start, length));
  bool resident = mincore(map, length, states.data()) == 0;
  for (const unsigned char state : states) resident = resident && (state & 1) != 0;
  munmap(map, length);
  return resident;
}

}  // namespace

bool is_resident(int fd, std::uint64_t offset, std::uint64_t bytes) {
  static std::atomic<bool> has_cachestat{true};
  if (bytes == 0) return true;
  if (has_cachestat.load(std::memory_order_relaxed)) {
    CachestatRange range{offset, bytes};
    Cachestat result{};
    if (syscall(kCachestatCall, fd, &range, &result, 0) == 0)
      return result.cache >= pages_of(offset, bytes);
    if (errno == ENOSYS || errno == EPERM) has_cachestat = false;
  }
  return is_resident_by_mincore(fd, offset, bytes);
}

bool read_without_waiting(int fd, std::span<std::byte> into, std::uint64_t offset) {
  const iovec part{into.data(), into.size()};
  const ssize_t got = ::preadv2(fd, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  return got >= 0 && static_cast<std::size_t>(got) == into.size();
}

Result<std::unique_ptr<FileSystem>> FileSystem::open(const std::string& root) {
  UniqueFd fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno(errno, fmt::format("open drive {}", root));
  return std::make_unique<FileSystem>(root, std::move(fd));
}

std::string FileSystem::pinned_root() const { return fmt::format("/proc/self/fd/{}", fd_.get()); }

Result<UniqueFd> FileSystem::create(const std::string& path) {
  UniqueFd fd(::openat(fd_.get(), path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.valid()) return fail_errno(errno, fmt::format("create {}/{}", root_, path));
  auto kept = within_limit(std::move(fd));
  if (!kept) static_cast<void>(remove(path));
  return kept;
}

Result<UniqueFd> FileSystem::open_for_read(const std::string& path) {
  // A change of the access time would make the file system write. A reader of a page in memory
  // would then wait for a drive that hangs. The owner of a file may ask for O_NOATIME.
  UniqueFd fd(::openat(fd_.get(), path.c_str(), O_RDONLY | O_CLOEXEC | O_NOATIME));
  if (!fd.valid() && errno == EPERM)
    fd = UniqueFd(::openat(fd_.get(), path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT)
    return fail(Errc::not_found, "open {}/{}: no such file", root_, path);
  if (!fd.valid()) return fail_errno(errno, fmt::format("open {}/{}", root_, path));
  // Read-ahead would bring pages that are not verified; we read whole blocks ourselves.
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
  return within_limit(std::move(fd));
}

Status FileSystem::make_directory(const std::string& path) {
  if (::mkdirat(fd_.get(), path.c_str(), 0755) != 0 && errno != EEXIST)
    return fail_errno(errno, fmt::format("make directory {}/{}", root_, path));
  return {};
}

Status FileSystem::write(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return fail_errno(errno, fmt::format("write on drive {}", root_));
    if (done == 0) return fail(Errc::io, "write on drive {}: nothing was written", root_);
    ++counters_.writes;
    counters_.written_bytes += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
  return {};
}

Status FileSystem::read(int fd, std::span<std::byte> into, std::uint64_t offset) {
  while (!into.empty()) {
    const ssize_t done = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return fail_errno(errno, fmt::format("read on drive {}", root_));
    if (done == 0)
      return fail(Errc::corrupt, "a data file on drive {} ends {} bytes early", root_, into.size());
    ++counters_.reads;
    counters_.read_bytes += static_cast<std::uint64_t>(done);
    into = into.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
  return {};
}

Status FileSystem::preallocate(int fd, std::uint64_t bytes) {
  if (bytes == 0) return {};
  if (::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0) return {};
  if (errno == EOPNOTSUPP) return {};  // probed at the start; then writes find out
  return fail_errno(errno, fmt::format("reserve {} bytes on drive {}", bytes, root_));
}

Status FileSystem::truncate(int fd, std::uint64_t size) {
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0)
    return fail_errno(errno, fmt::format("truncate a file on drive {}", root_));
  return {};
}

void FileSystem::start_writeback(int fd, std::uint64_t offset, std::uint64_t bytes) {
  ::sync_file_range(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                    SYNC_FILE_RANGE_WRITE);
}

Status FileSystem::write_back(int fd, std::uint64_t offset, std::uint64_t bytes) {
  constexpr unsigned kAll =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (::sync_file_range(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes), kAll) == 0)
    return {};
  return fail_errno(errno, "write back");
}

void FileSystem::start_readahead(int fd, std::uint64_t offset, std::uint64_t bytes) {
  // The kernel cuts one call to its own read-ahead size, so many small ones.
  constexpr std::uint64_t kStep = 128UL * 1024;
  for (std::uint64_t at = offset; at < offset + bytes; at += kStep)
    ::posix_fadvise(fd, static_cast<off_t>(at),
                    static_cast<off_t>(std::min(kStep, offset + bytes - at)), POSIX_FADV_WILLNEED);
}

void FileSystem::drop_cache(int fd, std::uint64_t offset, std::uint64_t bytes) {
  ::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

Status FileSystem::set_attribute(int fd, std::string_view bytes) {
  if (::fsetxattr(fd, kAttributeName, bytes.data(), bytes.size(), 0) != 0)
    return fail_errno(errno, fmt::format("set attribute on drive {}", root_));
  return {};
}

Status FileSystem::sync(int fd) {
  ++counters_.syncs;
  if (::fsync(fd) != 0) return fail_errno(errno, fmt::format("fsync on drive {}", root_));
  return {};
}

Status FileSystem::sync_directory(const std::string& path) {
  const UniqueFd fd(::openat(fd_.get(), path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno(errno, fmt::format("open directory {}/{}", root_, path));
  return sync(fd.get());
}

Status FileSystem::remove(const std::string& path) {
  if (::unlinkat(fd_.get(), path.c_str(), 0) != 0 && errno != ENOENT)
    return fail_errno(errno, fmt::format("unlink {}/{}", root_, path));
  return {};
}

Result<std::vector<std::string>> FileSystem::list(const std::string& path) {
  const int fd = ::openat(fd_.get(), path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return fail_errno(errno, fmt::format("open directory {}/{}", root_, path));
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd), &::closedir);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return fail_errno(errno, fmt::format("list directory {}/{}", root_, path));
  return names;
}

Result<std::uint64_t> FileSystem::size(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return fail_errno(errno, fmt::format("stat on drive {}", root_));
  return static_cast<std::uint64_t>(info.st_size);
}

Result<Space> FileSystem::space() {
  struct statvfs info{};
  if (::fstatvfs(fd_.get(), &info) != 0)
    return fail_errno(errno, fmt::format("statvfs of drive {}", root_));
  return Space{info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize};
}

Status FileSystem::check_mounted() {
  struct stat opened{};
  struct stat now{};
  if (::fstat(fd_.get(), &opened) != 0 || ::stat(root_.c_str(), &now) != 0)
    return fail_errno(errno, fmt::format("stat drive {}", root_));
  if (opened.st_dev != now.st_dev || opened.st_ino != now.st_ino)
    return fail(Errc::unavailable, "{} is no longer the file system that it was", root_);
  // The kernel makes it so after an error, and reads alone would not show it.
  struct statvfs its{};
  if (::fstatvfs(fd_.get(), &its) == 0 && (its.f_flag & ST_RDONLY) != 0)
    return fail(Errc::io, "{} has become read-only", root_);
  return {};
}

Status FileSystem::write_file(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".new";
  TRY_OK(remove(temporary));
  TRY(UniqueFd fd, create(temporary));
  TRY_OK(write(fd.get(), std::as_bytes(std::span(content)), 0));
  TRY_OK(sync(fd.get()));
  TRY_OK(fd.close());
  if (::renameat(fd_.get(), temporary.c_str(), fd_.get(), path.c_str()) != 0)
    return fail_errno(errno, fmt::format("rename {}/{}", root_, temporary));
  const auto slash = path.rfind('/');
  return sync_directory(slash == std::string::npos ? "." : path.substr(0, slash));
}

Result<std::string> FileSystem::read_file(const std::string& path) {
  TRY(const UniqueFd fd, open_for_read(path));
  TRY(const std::uint64_t bytes, size(fd.get()));
  std::string content(bytes, '\0');
  TRY_OK(read(fd.get(), std::as_writable_bytes(std::span(content)), 0));
  return content;
}

}  // namespace tarn::io
