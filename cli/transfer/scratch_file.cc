#include "cli/transfer/scratch_file.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "common/base/check.h"
#include "common/base/random.h"

namespace tarn::cli {
namespace {

// File that the signal handler removes. A slot belongs to one ScratchFile from claim to release;
// the handler, which may run on any thread, looks at armed ones only.
struct Slot {
  std::atomic<int> state = 0;  // 0 free, 1 claimed, 2 armed
  int directory = -1;
  char name[64] = {};
};
std::array<Slot, 512> slots;
std::atomic<bool> dying = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void remove_and_die(int signal) {
  dying = true;
  for (Slot& slot : slots)
    if (slot.state == 2) ::unlinkat(slot.directory, slot.name, 0);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void handle_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old{};
    ::sigaction(number, nullptr, &old);
    if (old.sa_handler == SIG_IGN) continue;  // nohup
    struct sigaction action{};
    action.sa_handler = remove_and_die;
    ::sigaction(number, &action, nullptr);
  }
}

/// A partial file of which this program is the only writer, until it closes it. Not valid when
/// another one is, or when it cannot be opened.
UniqueFd open_partial(int directory, const std::string& name, int flags) {
  UniqueFd fd(::openat(directory, name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0666));
  if (!fd.valid()) return fd;
  struct stat ours{};
  struct stat named{};
  // The writer before may have renamed it to its final name, or removed it, before we had the lock.
  const bool locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && ::fstat(fd.get(), &ours) == 0 &&
                      ::fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                      S_ISREG(ours.st_mode) && ours.st_dev == named.st_dev &&
                      ours.st_ino == named.st_ino;
  if (!locked) fd.reset();
  return fd;
}

int arm(int directory, const std::string& name) {
  static std::once_flag once;
  std::call_once(once, handle_signals);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots[i];
    int free = 0;
    if (!slot.state.compare_exchange_strong(free, 1)) continue;
    TARN_CHECK(name.size() < sizeof slot.name);
    slot.directory = directory;
    std::memcpy(slot.name, name.c_str(), name.size() + 1);
    slot.state = 2;
    return static_cast<int>(i);
  }
  TARN_CHECK(false);  // more at a time than any command writes
  return -1;
}

}  // namespace

ScratchFile::ScratchFile(UniqueFd directory, std::string name, std::string scratch_name)
    : directory_(std::move(directory)),
      name_(std::move(name)),
      scratch_name_(std::move(scratch_name)) {}

Result<std::unique_ptr<ScratchFile>> ScratchFile::create(UniqueFd directory, std::string name) {
  std::unique_ptr<ScratchFile> file(
      new ScratchFile(std::move(directory), std::move(name), ".tarn-" + random_id(12)));
  file->slot_ = arm(file->directory_.get(), file->scratch_name_);
  file->fd_ = UniqueFd(::openat(file->directory_.get(), file->scratch_name_.c_str(),
                                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  // A signal came between arming and making: its handler found nothing to remove.
  if (file->fd_.valid() && dying)
    ::unlinkat(file->directory_.get(), file->scratch_name_.c_str(), 0);
  if (!file->fd_.valid()) return fail_errno(errno, "create a file beside '" + file->name_ + "'");
  return file;
}

Result<std::unique_ptr<ScratchFile>> ScratchFile::create_partial(UniqueFd directory,
                                                                 const std::string& name,
                                                                 std::string partial) {
  UniqueFd fd = open_partial(directory.get(), partial, O_CREAT);
  if (!fd.valid()) return create(std::move(directory), name);
  std::unique_ptr<ScratchFile> file(
      new ScratchFile(std::move(directory), name, std::move(partial)));
  file->fd_ = std::move(fd);
  return file;
}

void ScratchFile::remove_partial(int directory, const std::string& partial) {
  const UniqueFd fd = open_partial(directory, partial, 0);
  if (fd.valid()) ::unlinkat(directory, partial.c_str(), 0);
}

ScratchFile::~ScratchFile() {
  if (!stays_) ::unlinkat(directory_.get(), scratch_name_.c_str(), 0);
  if (slot_ >= 0) slots[static_cast<std::size_t>(slot_)].state = 0;
}

Result<std::uint64_t> ScratchFile::take_up(std::uint64_t size_max, Xxh64Stream& hash) {
  struct stat info{};
  if (::fstat(fd_.get(), &info) != 0) return fail_errno(errno, "stat '" + scratch_name_ + "'");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > size_max) {
    TRY_OK(restart());
    return std::uint64_t{0};
  }
  std::vector<std::byte> buffer(1U << 20U);
  std::uint64_t at = 0;
  while (at < size) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read '" + scratch_name_ + "'");
    if (got == 0) break;
    hash.update(std::span(buffer).first(static_cast<std::size_t>(got)));
    at += static_cast<std::uint64_t>(got);
  }
  return at;
}

std::string ScratchFile::keep() {
  if (slot_ >= 0) return {};
  stays_ = true;
  return scratch_name_;
}

Status ScratchFile::restart() {
  if (::ftruncate(fd_.get(), 0) != 0 || ::lseek(fd_.get(), 0, SEEK_SET) != 0)
    return fail_errno(errno, "truncate '" + name_ + "'");
  return {};
}

Status ScratchFile::publish() {
  // close() reports errors that write() did not. The lock stays with a second descriptor until the
  // file has its name: a writer that got it before would take the file up, and empty it.
  UniqueFd locked(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 3));
  if (!locked.valid()) return fail_errno(errno, "open '" + name_ + "' again");
  TRY_OK(fd_.close());
  fd_ = std::move(locked);
  if (::renameat(directory_.get(), scratch_name_.c_str(), directory_.get(), name_.c_str()) != 0)
    return fail_errno(errno, "rename to '" + name_ + "'");
  stays_ = true;
  return {};
}

Status write_all(int fd, std::span<const std::byte> bytes, std::string_view name) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(errno, fmt::format("write '{}'", name));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace tarn::cli
