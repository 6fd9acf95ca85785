#include "cli/scratch_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/random.h"

namespace tarn::cli {
namespace {

// What the signal handler removes. Written before `armed`, read after it, by one thread and its
// handler.
struct {
  volatile sig_atomic_t armed = 0;
  int directory = -1;
  char name[64] = {};
} doomed;

void remove_and_die(int signal) {
  if (doomed.armed != 0) ::unlinkat(doomed.directory, doomed.name, 0);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void arm(int directory, const std::string& name) {
  TARN_CHECK(doomed.armed == 0 && name.size() < sizeof doomed.name);
  doomed.directory = directory;
  std::memcpy(doomed.name, name.c_str(), name.size() + 1);
  doomed.armed = 1;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old{};
    ::sigaction(number, nullptr, &old);
    if (old.sa_handler == SIG_IGN) continue;  // nohup
    struct sigaction action{};
    action.sa_handler = remove_and_die;
    ::sigaction(number, &action, nullptr);
  }
}

}  // namespace

ScratchFile::ScratchFile(UniqueFd directory, std::string name)
    : directory_(std::move(directory)),
      name_(std::move(name)),
      scratch_name_(".tarn-" + random_id(12)) {}

Result<std::unique_ptr<ScratchFile>> ScratchFile::create(UniqueFd directory, std::string name) {
  std::unique_ptr<ScratchFile> file(new ScratchFile(std::move(directory), std::move(name)));
  arm(file->directory_.get(), file->scratch_name_);
  file->fd_ = UniqueFd(::openat(file->directory_.get(), file->scratch_name_.c_str(),
                                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file->fd_.valid()) return fail_errno(errno, "create a file beside '" + file->name_ + "'");
  return file;
}

ScratchFile::~ScratchFile() {
  doomed.armed = 0;
  if (!published_) ::unlinkat(directory_.get(), scratch_name_.c_str(), 0);
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
