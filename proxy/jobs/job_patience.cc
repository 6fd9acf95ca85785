#include "proxy/jobs/job_patience.h"

#include "common/base/pause.h"
#include "common/obs/log.h"
#include "proxy/jobs/jobs.h"

namespace tarn::proxy {
namespace {

using namespace std::chrono_literals;

constexpr auto kJobPatience = 30s;
constexpr auto kJobPatienceShort = 2s;

}  // namespace

bool JobPatience::may_pass(Errc code) {
  return code == Errc::unavailable || code == Errc::timeout || code == Errc::disconnected ||
         code == Errc::io;
}

void JobPatience::worked() {
  stuck_since_.reset();
  pauses_.reset();
}

Task<Status> JobPatience::wait(std::string why) {
  const auto now = std::chrono::steady_clock::now();
  if (!stuck_since_) stuck_since_ = now;
  if (now - *stuck_since_ > (is_short_ ? kJobPatienceShort : kJobPatience))
    co_return fail(Errc::unavailable, "nothing could be done for {} s: {}",
                   std::chrono::seconds(kJobPatience).count(), why);
  obs::log("proxy").debug("job waits job={} why={}", job_, why);
  const auto until = now + pauses_.next();
  while (std::chrono::steady_clock::now() < until) {
    if (services_.jobs.should_stop(job_)) co_return fail(Errc::cancelled, "told to stop");
    co_await pause(50ms);
  }
  co_return Status();
}

}  // namespace tarn::proxy
