#include "common/base/process.h"

#include <signal.h>
#include <sys/resource.h>

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

const char* wait_for_stop() {
  const sigset_t set = stop_signals();
  int number = 0;
  while (sigwait(&set, &number) != 0) {
  }
  return number == SIGINT ? "SIGINT" : "SIGTERM";
}

}  // namespace tarn
