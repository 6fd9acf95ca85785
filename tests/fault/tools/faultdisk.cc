// faultdisk: one disk in a file, served through FUSE, that remembers everything and misbehaves on
// command.
//
//   faultdisk MOUNTPOINT BACKING LOG CONTROL
//
// MOUNTPOINT gets a single file, `disk`, as large as BACKING; put a loop device on it and a file
// system on that. Every write and every flush is appended to LOG in the order in which it took
// effect. So any moment of a power cut can be built again later (tests/fault/disks.py). Runs in the
// foreground until SIGTERM; SIGSTOP hangs the drive, SIGKILL yanks it.
//
// CONTROL is a Unix stream socket: a command a line, an answer a line ("ok ..." or "error ...").
//
//   rule ACTION OP [count=N|always] [skip=N] [from=BYTE] [to=BYTE] [match=HEX] [ms=N]
//        OP: read, write, flush, any. The first rule that matches is used; it ends after `count`
//        (1) uses. ACTION:
//                eio    the operation fails and changes nothing;
//                delay  the operation waits `ms` first;
//                hang   the operation waits until `clear`;
//                drop   a write or flush reports success and does nothing;
//                swap   the write is held back; the next one of the same length gets its data and
//                       the other way round (two misdirected writes);
//                tear   only the first half of the write, rounded down to a sector of 512 bytes,
//                       is stored.
//   clear              ends all rules and wakes what hangs;
//   log on|off         starts and ends recording;
//   mark TEXT          puts TEXT into the log;
//   stats              counters as one line of JSON.
//
// LOG is a sequence of records: the header below, then for a write its bytes and for a mark its
// text.
#define FUSE_USE_VERSION 35
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "faults.h"
#include <time.h>

namespace {

enum class Kind : std::uint32_t { write = 1, flush = 2, mark = 3 };

struct RecordHeader {
  std::uint32_t magic = 0x4b534446;  // "FDSK"
  Kind kind = Kind::write;
  std::uint64_t time_ns = 0;  // CLOCK_MONOTONIC when the operation was done, before it was answered
  // Of a flush: how many writes of the log were done when it arrived, and so are durable after it.
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // of what follows the header
};
static_assert(sizeof(RecordHeader) == 32);

/// Fault that the operation at hand must show, besides its work or instead of it.
struct Verdict {
  std::string action;
  int ms = 0;
};

struct HeldWrite {
  std::uint64_t offset;
  std::string data;
};

/// The disk and its faults. All members are guarded by `mutex_`. Reads and writes of the backing
/// file run under it, too, so that the log has the order in which they took effect.
class Disk {
 public:
  bool open(const char* backing, const char* log) {
    backing_ = ::open(backing, O_RDWR | O_CLOEXEC);
    log_ = ::open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct stat info{};
    if (backing_ < 0 || log_ < 0 || ::fstat(backing_, &info) != 0) {
      return false;
    }
    size_ = static_cast<std::uint64_t>(info.st_size);
    return true;
  }

  [[nodiscard]] std::uint64_t size() const { return size_; }

  int read(char* buffer, std::size_t length, std::uint64_t offset) {
    const auto verdict = decide("read", offset, {}, length);
    if (verdict.action == "eio") {
      return -EIO;
    }
    const std::lock_guard lock(mutex_);
    rules_.counters.add("reads");
    const auto got = ::pread(backing_, buffer, length, static_cast<off_t>(offset));
    return got < 0 ? -errno : static_cast<int>(got);
  }

  int write(const char* buffer, std::size_t length, std::uint64_t offset) {
    if (offset + length > size_) {
      return -ENOSPC;
    }
    const std::string_view data(buffer, length);
    const auto verdict = decide("write", offset, data, length);
    const std::lock_guard lock(mutex_);
    rules_.counters.add("writes");
    if (verdict.action == "eio") {
      return -EIO;
    }
    if (verdict.action == "drop") {
      return static_cast<int>(length);
    }
    if (verdict.action == "swap") {
      held_ = HeldWrite{offset, std::string(data)};
      return static_cast<int>(length);
    }
    if (held_ && held_->data.size() == length && held_->offset != offset) {
      const auto held = *std::exchange(held_, std::nullopt);
      rules_.counters.add("swapped");
      if (const int failed = store(data, held.offset); failed != 0) {
        return failed;
      }
      const int failed = store(held.data, offset);
      return failed != 0 ? failed : static_cast<int>(length);
    }
    const auto kept = verdict.action == "tear" ? data.substr(0, length / 2 / 512 * 512) : data;
    const int failed = store(kept, offset);
    return failed != 0 ? failed : static_cast<int>(length);
  }

  int flush() {
    std::uint64_t covers = 0;
    {
      const std::lock_guard lock(mutex_);
      covers = writes_logged_;
    }
    const auto verdict = decide("flush", 0, {}, 0);
    const std::lock_guard lock(mutex_);
    rules_.counters.add("flushes");
    if (verdict.action == "eio") {
      return -EIO;
    }
    if (verdict.action != "drop") {
      record(Kind::flush, covers, {});
    }
    return 0;
  }

  std::string command(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    const std::lock_guard lock(mutex_);
    if (verb == "rule") {
      return rules_.add(words, false);
    }
    if (verb == "clear") {
      rules_.clear();
      ++clears_;
      cleared_.notify_all();
      return "ok";
    }
    if (verb == "log") {
      words >> verb;
      logging_ = verb == "on";
      return "ok";
    }
    if (verb == "mark") {
      record(Kind::mark, 0, line.size() > 5 ? std::string_view(line).substr(5) : "");
      return "ok";
    }
    if (verb == "stats") {
      return "ok " + rules_.counters.json();
    }
    return "error unknown command";
  }

 private:
  static std::uint64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(now.tv_nsec);
  }

  /// Finds the rule for an operation, counts it, and does the waiting that it asks for.
  Verdict decide(std::string_view op, std::uint64_t offset, std::string_view data,
                 std::size_t length) {
    std::unique_lock lock(mutex_);
    Verdict verdict;
    const auto* rule = rules_.use(op, [&](const Rule& its) {
      const bool there = op == "flush" || (offset + length > its.from && offset < its.to);
      return there && (its.match.empty() || data.find(its.match) != std::string_view::npos);
    });
    if (rule != nullptr) {
      verdict = {rule->action, rule->ms};
    }
    if (verdict.action == "hang") {
      const auto seen = clears_;
      cleared_.wait(lock, [&] { return clears_ != seen; });
    }
    lock.unlock();
    if (verdict.action == "delay") {
      std::this_thread::sleep_for(std::chrono::milliseconds(verdict.ms));
    }
    return verdict;
  }

  int store(std::string_view data, std::uint64_t offset) {
    std::size_t done = 0;
    while (done < data.size()) {
      const auto put = ::pwrite(backing_, data.data() + done, data.size() - done,
                                static_cast<off_t>(offset + done));
      if (put < 0) {
        return -errno;
      }
      done += static_cast<std::size_t>(put);
    }
    record(Kind::write, offset, data);
    return 0;
  }

  void record(Kind kind, std::uint64_t offset, std::string_view data) {
    if (!logging_) {
      return;
    }
    if (kind == Kind::write) {
      ++writes_logged_;
    }
    RecordHeader header;
    header.kind = kind;
    header.time_ns = now_ns();
    header.offset = offset;
    header.length = data.size();
    append(&header, sizeof header);
    append(data.data(), data.size());
  }

  void append(const void* data, std::size_t length) {
    const auto* next = static_cast<const char*>(data);
    while (length > 0) {
      const auto put = ::write(log_, next, length);
      if (put < 0) {  // a log with a hole would prove nothing
        std::perror("faultdisk: log");
        std::_Exit(1);
      }
      next += put;
      length -= static_cast<std::size_t>(put);
    }
  }

  std::mutex mutex_;
  std::condition_variable cleared_;
  std::uint64_t clears_ = 0;
  int backing_ = -1;
  int log_ = -1;
  std::uint64_t size_ = 0;
  bool logging_ = false;
  std::uint64_t writes_logged_ = 0;
  Rules rules_;
  std::optional<HeldWrite> held_;
};

Disk disk;

bool is_disk(const char* path) { return std::strcmp(path, "/disk") == 0; }

int get_attributes(const char* path, struct stat* info, fuse_file_info*) {
  *info = {};
  if (std::strcmp(path, "/") == 0) {
    info->st_mode = S_IFDIR | 0755;
    info->st_nlink = 2;
    return 0;
  }
  if (!is_disk(path)) {
    return -ENOENT;
  }
  info->st_mode = S_IFREG | 0600;
  info->st_nlink = 1;
  info->st_size = static_cast<off_t>(disk.size());
  return 0;
}

fuse_operations operations() {
  fuse_operations ops{};
  ops.getattr = get_attributes;
  ops.readdir = [](const char*, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
                   fuse_readdir_flags) {
    fill(buffer, "disk", nullptr, 0, fuse_fill_dir_flags{});
    return 0;
  };
  ops.open = [](const char* path, fuse_file_info* file) {
    file->direct_io = 1;  // the loop device must reach us with every write, not a page cache
    return is_disk(path) ? 0 : -ENOENT;
  };
  ops.read = [](const char*, char* buffer, std::size_t length, off_t offset, fuse_file_info*) {
    return disk.read(buffer, length, static_cast<std::uint64_t>(offset));
  };
  ops.write = [](const char*, const char* buffer, std::size_t length, off_t offset,
                 fuse_file_info*) {
    return disk.write(buffer, length, static_cast<std::uint64_t>(offset));
  };
  ops.fsync = [](const char*, int, fuse_file_info*) { return disk.flush(); };
  return ops;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: faultdisk MOUNTPOINT BACKING LOG CONTROL\n");
    return 2;
  }
  if (!disk.open(argv[2], argv[3])) {
    std::perror("faultdisk: open");
    return 1;
  }
  ControlSocket control([](const std::string& line) { return disk.command(line); });
  if (!control.listen(argv[4])) {
    std::perror("faultdisk: control");
    return 1;
  }

  const auto ops = operations();
  return serve_fuse({argv[0]}, argv[1], ops, control, [] { disk.command("clear"); });
}
