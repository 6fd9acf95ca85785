#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/base/unique_fd.h"

namespace tarn::io {

struct Space {
  std::uint64_t total = 0;  ///< bytes
  std::uint64_t free = 0;   ///< bytes that we may still use
};

/// Counts of reads from and writes to the files of a drive since it was opened. Bytes that sendfile
/// sends from memory do not count.
struct IoCounters {
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> read_bytes{0};
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> written_bytes{0};
  std::atomic<std::uint64_t> syncs{0};
};

/// The file system of one drive, seen from the drive's root. All paths are relative to that root,
/// which is held open: when the drive is unmounted under us, nothing can land in the directory
/// below its mount point. One virtual call a system call, so that tests can make any of them fail.
/// Blocking: call on the drive's threads only. Thread-safe. Errors: io, no_space, not_found.
class FileSystem {
 public:
  /// `root` must be an existing directory.
  [[nodiscard]] static Result<std::unique_ptr<FileSystem>> open(const std::string& root);
  FileSystem(std::string root, UniqueFd root_fd)
      : root_(std::move(root)), fd_(std::move(root_fd)) {}
  virtual ~FileSystem() = default;

  [[nodiscard]] const std::string& root() const { return root_; }
  /// A path of the root that stays valid for this process whatever is mounted over it.
  [[nodiscard]] std::string pinned_root() const;

  /// Makes a new file for reading and writing; io when it exists.
  virtual Result<UniqueFd> create(const std::string& path);
  virtual Result<UniqueFd> open_for_read(const std::string& path);
  /// Makes the directory unless it exists.
  virtual Status make_directory(const std::string& path);
  virtual Status write(int fd, std::span<const std::byte> bytes, std::uint64_t offset);
  /// Exactly into.size() bytes; corrupt when the file ends before.
  virtual Status read(int fd, std::span<std::byte> into, std::uint64_t offset);
  /// Reserves blocks without changing the file's size.
  virtual Status preallocate(int fd, std::uint64_t bytes);
  virtual Status truncate(int fd, std::uint64_t size);
  /// Asks the kernel to begin writing these bytes; does not wait.
  virtual void start_writeback(int fd, std::uint64_t offset, std::uint64_t bytes);
  /// Writes these bytes from memory to the drive and waits for that; durable they are not before
  /// sync(). An error is that of a sync.
  virtual Status write_back(int fd, std::uint64_t offset, std::uint64_t bytes);
  /// Asks the kernel to begin reading these bytes into the page cache; may wait for room in the
  /// drive's queue, not for the bytes.
  virtual void start_readahead(int fd, std::uint64_t offset, std::uint64_t bytes);
  /// Drops clean pages of these bytes from the page cache.
  virtual void drop_cache(int fd, std::uint64_t offset, std::uint64_t bytes);
  virtual Status set_attribute(int fd, std::string_view bytes);
  /// fsync. After an error the drive must be taken out: a second call may succeed for lost data.
  virtual Status sync(int fd);
  virtual Status sync_directory(const std::string& path);
  /// Succeeds if it is already gone.
  virtual Status remove(const std::string& path);
  virtual Result<std::vector<std::string>> list(const std::string& path);
  virtual Result<std::uint64_t> size(int fd);
  virtual Result<Space> space();
  /// unavailable when the root's path no longer leads to the file system that was opened, io when
  /// the kernel has made that read-only.
  virtual Status check_mounted();

  [[nodiscard]] const IoCounters& counters() const { return counters_; }

  /// Closes the root, so that it can be unmounted: from now on every call is an error.
  void close() { fd_.reset(); }

  /// Replaces a small file: temporary name, fsync, rename, fsync of the directory.
  Status write_file(const std::string& path, std::string_view content);
  [[nodiscard]] Result<std::string> read_file(const std::string& path);

 private:
  std::string root_;
  UniqueFd fd_;
  IoCounters counters_;
};

/// True if all pages of these bytes are in memory, so that reading them will not wait for the
/// drive. cachestat where the kernel has it, else mincore over a mapping. Never blocks.
[[nodiscard]] bool is_resident(int fd, std::uint64_t offset, std::uint64_t bytes);

/// Reads these bytes if that does not mean waiting for the drive. False when it would, when the
/// file ends before, and where the file system cannot promise it. True does not mean that they were
/// in memory: the kernel may have begun to read and found the drive quick; ask is_resident() first.
[[nodiscard]] bool read_without_waiting(int fd, std::span<std::byte> into, std::uint64_t offset);

}  // namespace tarn::io
