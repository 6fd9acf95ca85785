// faultfs: a directory served through FUSE as it is, with faults by operation and file name.
//
//   faultfs MOUNTPOINT DIRECTORY CONTROL
//
// Runs in the foreground until SIGTERM. CONTROL is a Unix stream socket, a command a line, an
// answer a line:
//
//   rule ACTION OP NAME [count=N|always] [skip=N]
//        OP: open, create, read, write, fsync, unlink, setxattr, any. NAME is a part of the path
//        (`*`: every path). The first rule that matches is used; it ends after `count` (1) uses.
//        ACTION: eio     the operation fails with EIO
//                enospc  the operation fails with ENOSPC
//                erofs   the operation fails with EROFS
//                flip    a read: one bit of the first byte that it returns is turned
//                zero    a read: all that it returns is zeros
//   clear      ends all rules
//   stats      counters as one line of JSON, for example {"eio.fsync": 1}
//
// A failed fsync leaves the bytes in the directory below; what a drive may do to them after such an
// error is faultdisk's part.
#define FUSE_USE_VERSION 35
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "faults.h"
#include <dirent.h>

namespace {

/// The rules, and how often each was used. Shared by all threads of FUSE and the control socket.
class Faults {
 public:
  /// The action for this operation on this path, counted; empty: none.
  std::string decide(std::string_view op, std::string_view path) {
    const std::lock_guard lock(mutex_);
    const auto* rule = rules_.use(op, [&](const Rule& its) {
      return its.name == "*" || path.find(its.name) != std::string_view::npos;
    });
    return rule != nullptr ? rule->action : std::string();
  }

  std::string command(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    const std::lock_guard lock(mutex_);
    if (verb == "clear") {
      rules_.clear();
      return "ok";
    }
    if (verb == "stats") {
      return "ok " + rules_.counters.json();
    }
    return verb == "rule" ? rules_.add(words, true) : "error unknown command";
  }

 private:
  std::mutex mutex_;
  Rules rules_;
};

Faults faults;
std::string root;

std::string below(const char* path) { return root + path; }
int result(long value) { return value < 0 ? -errno : static_cast<int>(value); }

/// The error that a rule asks for, or 0.
int fault(std::string_view op, const char* path) {
  const auto action = faults.decide(op, path);
  if (action == "eio") {
    return -EIO;
  }
  if (action == "enospc") {
    return -ENOSPC;
  }
  if (action == "erofs") {
    return -EROFS;
  }
  return 0;
}

/// Opens the file below. O_APPEND is the kernel's business: it gives every write its offset.
int open_file(const char* path, int flags, mode_t mode, fuse_file_info* file) {
  const int fd = ::open(below(path).c_str(), (flags & ~(O_DIRECT | O_APPEND)) | O_CLOEXEC, mode);
  if (fd < 0) {
    return -errno;
  }
  file->fh = static_cast<std::uint64_t>(fd);
  return 0;
}

int fd_of(const fuse_file_info* file) { return static_cast<int>(file->fh); }

int do_open(const char* path, fuse_file_info* file) {
  const int failed = fault("open", path);
  return failed != 0 ? failed : open_file(path, file->flags, 0, file);
}

int do_create(const char* path, mode_t mode, fuse_file_info* file) {
  const int failed = fault("create", path);
  return failed != 0 ? failed : open_file(path, file->flags | O_CREAT, mode, file);
}

int do_read(const char* path, char* buffer, std::size_t length, off_t offset,
            fuse_file_info* file) {
  const auto action = faults.decide("read", path);
  if (action == "eio") {
    return -EIO;
  }
  const auto got = ::pread(fd_of(file), buffer, length, offset);
  if (got > 0 && action == "flip") {
    buffer[0] = static_cast<char>(buffer[0] ^ 1);
  }
  if (got > 0 && action == "zero") {
    std::memset(buffer, 0, static_cast<std::size_t>(got));
  }
  return result(got);
}

int do_write(const char* path, const char* buffer, std::size_t length, off_t offset,
             fuse_file_info* file) {
  const int failed = fault("write", path);
  return failed != 0 ? failed : result(::pwrite(fd_of(file), buffer, length, offset));
}

int do_fsync(const char* path, int data_only, fuse_file_info* file) {
  if (const int failed = fault("fsync", path); failed != 0) {
    return failed;
  }
  return result(data_only != 0 ? ::fdatasync(fd_of(file)) : ::fsync(fd_of(file)));
}

int do_fsync_directory(const char* path, int, fuse_file_info*) {
  if (const int failed = fault("fsync", path); failed != 0) {
    return failed;
  }
  const int fd = ::open(below(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return -errno;
  }
  const int synced = result(::fsync(fd));
  ::close(fd);
  return synced;
}

int do_read_directory(const char* path, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
                      fuse_readdir_flags) {
  DIR* directory = ::opendir(below(path).c_str());
  if (directory == nullptr) {
    return -errno;
  }
  while (const dirent* entry = ::readdir(directory)) {
    struct stat info{};
    info.st_ino = entry->d_ino;
    info.st_mode = static_cast<mode_t>(entry->d_type << 12);
    fill(buffer, entry->d_name, &info, 0, fuse_fill_dir_flags{});
  }
  ::closedir(directory);
  return 0;
}

fuse_operations operations() {
  fuse_operations ops{};
  ops.init = [](fuse_conn_info*, fuse_config* config) -> void* {
    config->use_ino = 1;
    config->entry_timeout = 0;
    config->attr_timeout = 0;
    config->negative_timeout = 0;
    return nullptr;
  };
  ops.getattr = [](const char* path, struct stat* info, fuse_file_info* file) {
    return result(file != nullptr ? ::fstat(fd_of(file), info)
                                  : ::lstat(below(path).c_str(), info));
  };
  ops.readdir = do_read_directory;
  ops.fsyncdir = do_fsync_directory;
  ops.open = do_open;
  ops.create = do_create;
  ops.read = do_read;
  ops.write = do_write;
  ops.fsync = do_fsync;
  ops.release = [](const char*, fuse_file_info* file) { return result(::close(fd_of(file))); };
  ops.unlink = [](const char* path) {
    const int failed = fault("unlink", path);
    return failed != 0 ? failed : result(::unlink(below(path).c_str()));
  };
  ops.mkdir = [](const char* path, mode_t mode) {
    return result(::mkdir(below(path).c_str(), mode));
  };
  ops.rmdir = [](const char* path) { return result(::rmdir(below(path).c_str())); };
  ops.rename = [](const char* from, const char* to, unsigned flags) {
    return flags != 0 ? -EINVAL : result(::rename(below(from).c_str(), below(to).c_str()));
  };
  ops.link = [](const char* from, const char* to) {
    return result(::link(below(from).c_str(), below(to).c_str()));
  };
  ops.chmod = [](const char* path, mode_t mode, fuse_file_info*) {
    return result(::chmod(below(path).c_str(), mode));
  };
  ops.utimens = [](const char* path, const timespec times[2], fuse_file_info*) {
    return result(::utimensat(AT_FDCWD, below(path).c_str(), times, AT_SYMLINK_NOFOLLOW));
  };
  ops.truncate = [](const char* path, off_t size, fuse_file_info* file) {
    return result(file != nullptr ? ::ftruncate(fd_of(file), size)
                                  : ::truncate(below(path).c_str(), size));
  };
  ops.fallocate = [](const char* path, int mode, off_t offset, off_t length, fuse_file_info* file) {
    const int failed = fault("write", path);
    return failed != 0 ? failed : result(::fallocate(fd_of(file), mode, offset, length));
  };
  ops.flock = [](const char*, fuse_file_info* file, int operation) {
    return result(::flock(fd_of(file), operation));
  };
  ops.statfs = [](const char* path, struct statvfs* info) {
    return result(::statvfs(below(path).c_str(), info));
  };
  ops.setxattr = [](const char* path, const char* name, const char* value, std::size_t size,
                    int flags) {
    const int failed = fault("setxattr", path);
    return failed != 0 ? failed
                       : result(::lsetxattr(below(path).c_str(), name, value, size, flags));
  };
  ops.getxattr = [](const char* path, const char* name, char* value, std::size_t size) {
    return result(::lgetxattr(below(path).c_str(), name, value, size));
  };
  ops.listxattr = [](const char* path, char* list, std::size_t size) {
    return result(::llistxattr(below(path).c_str(), list, size));
  };
  ops.removexattr = [](const char* path, const char* name) {
    return result(::lremovexattr(below(path).c_str(), name));
  };
  return ops;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: faultfs MOUNTPOINT DIRECTORY CONTROL\n");
    return 2;
  }
  root = argv[2];
  ControlSocket control([](const std::string& line) { return faults.command(line); });
  if (!control.listen(argv[3])) {
    std::perror("faultfs: control");
    return 1;
  }

  const auto ops = operations();
  ::umask(0);
  return serve_fuse({argv[0], "-o", "default_permissions"}, argv[1], ops, control, [] {});
}
