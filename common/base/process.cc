#include "common/base/process.h"

#include <algorithm>
#include <limits>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tarn {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void prepare_process() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

bool fd_is_within_limit(int fd, FdUse use) {
  constexpr rlim_t kReserve = 64;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return true;
  const rlim_t kept = use == FdUse::connection ? files.rlim_cur / 4
                                               : std::min<rlim_t>(kReserve, files.rlim_cur / 8);
  return static_cast<rlim_t>(fd) < files.rlim_cur - kept;
}

bool stop_is_pending() {
  sigset_t pending;
  return sigpending(&pending) == 0 &&
         (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

std::size_t open_files_max() {
  rlimit files{};
  const bool known = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
  return known ? files.rlim_cur : std::numeric_limits<std::size_t>::max();
}

void request_stop() { ::kill(::getpid(), SIGTERM); }

const char* wait_for_stop() {
  const sigset_t set = stop_signals();
  int number = 0;
  while (sigwait(&set, &number) != 0) {
  }
  return number == SIGINT ? "SIGINT" : "SIGTERM";
}

}  // namespace tarn
