// faultfs: a directory served through FUSE as it is, with faults by operation and file name.
//
//   faultfs MOUNTPOINT DIRECTORY CONTROL
//
// Runs in the foreground until SIGTERM. CONTROL is a Unix stream socket, a command a line, an
// answer a line:
//
//   rule ACTION OP NAME [count=N|always] [skip=N] [ms=N]
//        OP: open, create, read, write, fsync, unlink, setxattr, any. NAME is a part of the path
//        (`*`: every path). The first rule that matches is used; it ends after `count` (1) uses.
//        ACTION: eio     the operation fails with EIO;
//                enospc  the operation fails with ENOSPC;
//                erofs   the operation fails with EROFS;
//                delay   the operation waits `ms` first;
//                flip    a read: one bit of the first byte that it returns is turned;
//                zero    a read: all that it returns is zeros.
//   clear      ends all rules;
//   stats      counters as one line of JSON, for example {"eio.fsync": 1}.
//
// A failed fsync leaves the bytes in the directory below; what a drive may do to them after such an
// error is faultdisk's part.
#define FUSE_USE_VERSION 35
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "faults.h"
#include "passthrough.h"

namespace {

namespace passthrough = tarn::passthrough;
using passthrough::below;
using passthrough::fd_of;
using passthrough::open_file;
using passthrough::result;

/// The rules, and how often each was used. Shared by all threads of FUSE and the control socket.
class Faults {
 public:
  /// The action for this operation on this path, counted; empty: none. A delay is over by then.
  std::string decide(std::string_view op, std::string_view path) {
    std::unique_lock lock(mutex_);
    const auto* rule = rules_.use(op, [&](const Rule& its) {
      return its.name == "*" || path.find(its.name) != std::string_view::npos;
    });
    if (rule == nullptr) {
      return {};
    }
    const auto action = rule->action;
    const auto wait = std::chrono::milliseconds(rule->ms);
    lock.unlock();
    if (action == "delay") {
      std::this_thread::sleep_for(wait);
    }
    return action;
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
  return passthrough::sync_file(file, data_only);
}

int do_fsync_directory(const char* path, int, fuse_file_info*) {
  if (const int failed = fault("fsync", path); failed != 0) {
    return failed;
  }
  return passthrough::sync_directory(path);
}

fuse_operations operations() {
  fuse_operations ops = passthrough::operations();
  ops.init = [](fuse_conn_info*, fuse_config* config) -> void* {
    config->use_ino = 1;
    config->entry_timeout = 0;
    config->attr_timeout = 0;
    config->negative_timeout = 0;
    return nullptr;
  };
  ops.fsyncdir = do_fsync_directory;
  ops.open = do_open;
  ops.create = do_create;
  ops.read = do_read;
  ops.write = do_write;
  ops.fsync = do_fsync;
  ops.unlink = [](const char* path) {
    const int failed = fault("unlink", path);
    return failed != 0 ? failed : result(::unlink(below(path).c_str()));
  };
  ops.fallocate = [](const char* path, int mode, off_t offset, off_t length, fuse_file_info* file) {
    const int failed = fault("write", path);
    return failed != 0 ? failed : result(::fallocate(fd_of(file), mode, offset, length));
  };
  ops.setxattr = [](const char* path, const char* name, const char* value, std::size_t size,
                    int flags) {
    const int failed = fault("setxattr", path);
    return failed != 0 ? failed
                       : result(::lsetxattr(below(path).c_str(), name, value, size, flags));
  };
  return ops;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: faultfs MOUNTPOINT DIRECTORY CONTROL\n");
    return 2;
  }
  passthrough::root = argv[2];
  ControlSocket control([](const std::string& line) { return faults.command(line); });
  if (!control.listen(argv[3])) {
    std::perror("faultfs: control");
    return 1;
  }

  const auto ops = operations();
  ::umask(0);
  return serve_fuse({argv[0], "-o", "default_permissions"}, argv[1], ops, control, [] {});
}
