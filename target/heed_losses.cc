#include "target/heed_losses.h"

#include <boost/asio/steady_timer.hpp>

#include "common/obs/log.h"

namespace tarn::target {
namespace {

constexpr std::chrono::milliseconds kHeedLossesLookEvery{100};

}  // namespace

Task<void> heed_losses(TargetNode& node) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (true) {
    timer.expires_after(kHeedLossesLookEvery);
    co_await timer.async_wait(asio::use_awaitable);
    if (node.rebuild.heed(known_losses(*node.owned.state())))
      obs::log("repair").info("rebuild goes on though it was stopped: more is lost");
  }
}

}  // namespace tarn::target
