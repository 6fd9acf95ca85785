#include "cli/scratch_file.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <signal.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/random.h"

namespace tarn::cli {
namespace {

// What the signal handler removes. A slot belongs to one ScratchFile from claim to release; the
// handler, which may run on any thread, looks at armed ones only.
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

ScratchFile::ScratchFile(UniqueFd directory, std::string name)
    : directory_(std::move(directory)),
      name_(std::move(name)),
      scratch_name_(".tarn-" + random_id(12)) {}

Result<std::unique_ptr<ScratchFile>> ScratchFile::create(UniqueFd directory, std::string name) {
  std::unique_ptr<ScratchFile> file(new ScratchFile(std::move(directory), std::move(name)));
  file->slot_ = arm(file->directory_.get(), file->scratch_name_);
  file->fd_ = UniqueFd(::openat(file->directory_.get(), file->scratch_name_.c_str(),
                                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  // A signal came between arming and making: its handler found nothing to remove.
  if (file->fd_.valid() && dying)
    ::unlinkat(file->directory_.get(), file->scratch_name_.c_str(), 0);
  if (!file->fd_.valid()) return fail_errno(errno, "create a file beside '" + file->name_ + "'");
  return file;
}

ScratchFile::~ScratchFile() {
  if (!published_) ::unlinkat(directory_.get(), scratch_name_.c_str(), 0);
  slots[static_cast<std::size_t>(slot_)].state = 0;
}

Status ScratchFile::restart() {
  if (::ftruncate(fd_.get(), 0) != 0 || ::lseek(fd_.get(), 0, SEEK_SET) != 0)
    return fail_errno(errno, "truncate '" + name_ + "'");
  return {};
}

Status ScratchFile::publish() {
  TRY_OK(fd_.close());
  if (::renameat(directory_.get(), scratch_name_.c_str(), directory_.get(), name_.c_str()) != 0)
    return fail_errno(errno, "rename to '" + name_ + "'");
  published_ = true;
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
