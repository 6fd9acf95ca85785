#include "target/repair/heed_losses.h"

#include "common/base/event.h"
#include "common/obs/log.h"

namespace tarn::target {
namespace {

constexpr std::chrono::milliseconds kHeedLossesLookEvery{500};

}  // namespace

Task<void> heed_losses(TargetNode& node) {
  EventListener changes(node.view.changed(), co_await asio::this_coro::executor);
  while (true) {
    co_await changes.wait_until(next_tick(kHeedLossesLookEvery));
    if (node.rebuild.heed(known_losses(*node.owned.state())))
      obs::log("repair").info("rebuild goes on though it was stopped: more is lost");
  }
}

}  // namespace tarn::target
