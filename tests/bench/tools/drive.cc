// tarn-bench-drive: a directory served through FUSE as if it lay on one rotating drive.
//
//   tarn-bench-drive MOUNTPOINT DIRECTORY [--rate BYTES_PER_S] [--seek-ms MS] [--half-turn-ms MS]
//
// One head, first come first served. A request that does not begin where the last one ended, in the
// same file, costs a seek and half a turn; then bytes cost bytes/rate. A sync costs one seek. With
// --seek-ms 0 --half-turn-ms 0 it is a drive with a rate and nothing else. The kernel's page cache
// is on, as over a real drive, with its usual read-ahead and write-back: drop the caches before a
// cold run. Time that the directory below needs is part of the model's time, not added to it.
//
// Runs in the foreground until SIGTERM. Two attributes of the mount point steer it, with setfattr
// and getfattr:
//   user.bench.model   "0": no head, full speed (to fill it); "1": on (the default)
//   user.bench.head    read only: {"seeks": N, "bytes": N} since the model was last switched on
#define FUSE_USE_VERSION 312
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "bench.h"
#include "passthrough.h"
#include <fuse.h>

namespace {

namespace passthrough = tarn::passthrough;
using passthrough::below;
using passthrough::fd_of;
using passthrough::result;

constexpr const char* kModelAttribute = "user.bench.model";
constexpr const char* kHeadAttribute = "user.bench.head";
constexpr int kThreads = 64;
constexpr unsigned kRequestBytesMax = 1U << 20U;
/// Requests that several threads of the kernel's read-ahead put in the wrong order by a little are
/// still one run: a drive's own buffer covers that.
constexpr std::int64_t kSameTrackBytes = 512 << 10;

/// The head of the drive. Shared by all threads of FUSE.
class Head {
 public:
  double rate = 200e6;
  double seek = 0.008;
  double half_turn = 0.004;

  void switch_on(bool on) {
    const std::lock_guard lock(mutex_);
    on_ = on;
    seeks_ = bytes_ = 0;
  }

  /// When this request will be done: it is the last in the queue now.
  double reserve(std::uint64_t file, std::int64_t offset, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const double now = tarn::bench::now();
    if (!on_) return now;
    free_at_ = std::max(free_at_, now);
    const std::int64_t distance = std::abs(offset - end_);
    if (file != file_ || distance > kSameTrackBytes) {
      free_at_ += seek + half_turn;
      ++seeks_;
    }
    free_at_ += static_cast<double>(bytes) / rate;
    file_ = file;
    end_ = offset + static_cast<std::int64_t>(bytes);
    bytes_ += bytes;
    return free_at_;
  }

  /// The head leaves for the journal and comes back to nowhere in particular.
  double reserve_sync() { return reserve(0, 0, 0); }

  std::string report() {
    const std::lock_guard lock(mutex_);
    return "{\"seeks\": " + std::to_string(seeks_) + ", \"bytes\": " + std::to_string(bytes_) + "}";
  }

 private:
  std::mutex mutex_;
  bool on_ = true;
  double free_at_ = 0;
  std::uint64_t file_ = 0;
  std::int64_t end_ = 0;
  std::uint64_t seeks_ = 0;
  std::uint64_t bytes_ = 0;
};

Head head;

void wait_until(double when) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(when);
  time.tv_nsec = static_cast<long>((when - static_cast<double>(time.tv_sec)) * 1e9);
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

/// fh: the descriptor, and above it the low half of the inode number, which tells files apart.
int open_file(const char* path, int flags, mode_t mode, fuse_file_info* file) {
  // With write-back the kernel reads what a write does not fill.
  if ((flags & O_ACCMODE) == O_WRONLY) flags = (flags & ~O_ACCMODE) | O_RDWR;
  const int failed = passthrough::open_file(path, flags & ~(O_DIRECT | O_APPEND), mode, file);
  if (failed != 0) return failed;
  struct stat info{};
  ::fstat(fd_of(file), &info);
  file->fh |= static_cast<std::uint64_t>(info.st_ino) << 32U;
  file->keep_cache = 1;
  return 0;
}

int do_read(const char*, char* buffer, std::size_t length, off_t offset, fuse_file_info* file) {
  const double done = head.reserve(file->fh >> 32U, offset, length);
  const auto got = ::pread(fd_of(file), buffer, length, offset);
  const int answer = result(got);
  wait_until(done);
  return answer;
}

int do_write(const char*, const char* buffer, std::size_t length, off_t offset,
             fuse_file_info* file) {
  const double done = head.reserve(file->fh >> 32U, offset, length);
  const int answer = result(::pwrite(fd_of(file), buffer, length, offset));
  wait_until(done);
  return answer;
}

int do_fsync(const char*, int data_only, fuse_file_info* file) {
  const double done = head.reserve_sync();
  const int answer = passthrough::sync_file(file, data_only);
  wait_until(done);
  return answer;
}

int do_fsync_directory(const char* path, int, fuse_file_info*) {
  const double done = head.reserve_sync();
  const int answer = passthrough::sync_directory(path);
  wait_until(done);
  return answer;
}

int do_set_attribute(const char* path, const char* name, const char* value, std::size_t size,
                     int flags) {
  if (std::strcmp(name, kModelAttribute) == 0) {
    head.switch_on(std::string_view(value, size) == "1");
    return 0;
  }
  return result(::lsetxattr(below(path).c_str(), name, value, size, flags));
}

int do_get_attribute(const char* path, const char* name, char* value, std::size_t size) {
  if (std::strcmp(name, kHeadAttribute) != 0)
    return result(::lgetxattr(below(path).c_str(), name, value, size));
  const std::string report = head.report();
  if (size == 0) return static_cast<int>(report.size()) + 20;  // it may grow until it is asked for
  if (size < report.size()) return -ERANGE;
  return static_cast<int>(report.copy(value, size));
}

fuse_operations operations() {
  fuse_operations ops = passthrough::operations();
  ops.open = [](const char* path, fuse_file_info* file) {
    return open_file(path, file->flags, 0, file);
  };
  ops.create = [](const char* path, mode_t mode, fuse_file_info* file) {
    return open_file(path, file->flags | O_CREAT, mode, file);
  };
  ops.read = do_read;
  ops.write = do_write;
  ops.fsync = do_fsync;
  ops.fsyncdir = do_fsync_directory;
  ops.setxattr = do_set_attribute;
  ops.getxattr = do_get_attribute;
  return ops;
}

void* init(fuse_conn_info* connection, fuse_config* config) {
  connection->max_write = kRequestBytesMax;
  connection->max_read = kRequestBytesMax;
  connection->max_background = kThreads;
  connection->want |= connection->capable & FUSE_CAP_WRITEBACK_CACHE;
  config->use_ino = 1;
  config->entry_timeout = 60;
  config->attr_timeout = 60;
  config->nullpath_ok = 0;
  return nullptr;
}

int serve(const std::string& mount_point) {
  fuse_operations ops = operations();
  ops.init = init;
  ::umask(0);
  std::array<std::string, 3> words{
      "tarn-bench-drive", "-o",
      "default_permissions,fsname=tarn-bench-drive,max_read=" + std::to_string(kRequestBytesMax)};
  std::array<char*, 3> pointers{words[0].data(), words[1].data(), words[2].data()};
  fuse_args args = FUSE_ARGS_INIT(static_cast<int>(pointers.size()), pointers.data());
  fuse* handle = fuse_new(&args, &ops, sizeof ops, nullptr);
  if (handle == nullptr || fuse_mount(handle, mount_point.c_str()) != 0) return 1;
  fuse_set_signal_handlers(fuse_get_session(handle));
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_max_threads(config, kThreads);
  fuse_loop_cfg_set_idle_threads(config, kThreads);
  fuse_loop_mt(handle, config);
  fuse_loop_cfg_destroy(config);
  fuse_remove_signal_handlers(fuse_get_session(handle));
  fuse_unmount(handle);
  fuse_destroy(handle);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  tarn::bench::Words words(argc, argv);
  const std::string mount_point = words.value();
  passthrough::root = words.value();
  while (const auto word = words.next()) {
    if (*word == "--rate") {
      head.rate = std::stod(words.value());
    } else if (*word == "--seek-ms") {
      head.seek = std::stod(words.value()) * 1e-3;
    } else if (*word == "--half-turn-ms") {
      head.half_turn = std::stod(words.value()) * 1e-3;
    } else {
      tarn::bench::die("unknown word " + *word);
    }
  }
  return serve(mount_point);
}
