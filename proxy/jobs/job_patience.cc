#include "proxy/jobs/job_patience.h"

#include <algorithm>

#include <boost/asio/steady_timer.hpp>

#include "common/obs/log.h"
#include "proxy/jobs/jobs.h"

namespace tarn::proxy {
namespace {

using namespace std::chrono_literals;

constexpr auto kJobPatience = 30s;
constexpr auto kJobPatienceShort = 2s;
constexpr std::chrono::milliseconds kJobPauseMax{1'000};

}  // namespace

bool JobPatience::may_pass(Errc code) {
  return code == Errc::unavailable || code == Errc::timeout || code == Errc::disconnected ||
         code == Errc::io;
}

void JobPatience::worked() {
  stuck_since_.reset();
  pause_ = kPauseFirst;
}

Task<Status> JobPatience::wait(std::string why) {
  const auto now = std::chrono::steady_clock::now();
  if (!stuck_since_) stuck_since_ = now;
  if (now - *stuck_since_ > (is_short_ ? kJobPatienceShort : kJobPatience))
    co_return fail(Errc::unavailable, "nothing could be done for {} s: {}",
                   std::chrono::seconds(kJobPatience).count(), why);
  obs::log("proxy").debug("job waits job={} why={}", job_, why);
  const auto until = now + pause_;
  pause_ = std::min(pause_ * 2, kJobPauseMax);
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (std::chrono::steady_clock::now() < until) {
    if (services_.jobs.should_stop(job_)) co_return fail(Errc::cancelled, "told to stop");
    timer.expires_after(50ms);
    co_await timer.async_wait(asio::use_awaitable);
  }
  co_return Status();
}

}  // namespace tarn::proxy
