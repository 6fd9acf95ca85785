#include "common/cluster/node/patience.h"

#include <chrono>
#include <string>

#include "common/base/pause.h"
#include "common/base/process.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

constexpr std::chrono::milliseconds kAgain{200};

bool may_pass(Errc code) {
  return code == Errc::unavailable || code == Errc::timeout || code == Errc::not_found;
}

}  // namespace

Task<Status> patiently(std::function<Task<Status>()> attempt) {
  std::string told;
  while (true) {
    const Status done = co_await attempt();
    if (done || !may_pass(done.error().code)) co_return done;
    if (told != done.error().message)
      obs::log("cluster").warn("waiting for the meta store err={}", done.error().message);
    told = done.error().message;
    if (stop_is_pending())
      co_return fail(Errc::cancelled, "stopped while it waited for the meta store: {}", told);
    co_await pause(kAgain);
  }
}

}  // namespace tarn::cluster
