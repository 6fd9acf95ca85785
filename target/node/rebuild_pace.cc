#include "target/node/rebuild_pace.h"

#include <algorithm>

#include <boost/asio/steady_timer.hpp>

#include "common/base/fail_point.h"
#include "target/node/move_pace.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr auto kMost = 1s;

}  // namespace

bool clients_wait(const TargetNode& node) {
  if (node.clients.load() == 0) return false;
  const auto drives = node.store.drives();
  return std::any_of(drives.begin(), drives.end(),
                     [](const auto& drive) { return drive->turns().waiting() > 0; });
}

Task<Status> pass_read(TargetNode& node, std::uint64_t bytes) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  const BootTime until = node.clock.boot_time() + kMost;
  while (SAFETY("safety.rebuild_pace")) {
    const BootTime now = node.clock.boot_time();
    const auto wait = rebuild_wait(node.moves.limits, bytes, now, clients_wait(node));
    if (wait.by == HeldBy::nothing || now >= until) break;
    node.rebuild.held(wait.by, node.clock);
    timer.expires_after(std::min<std::chrono::nanoseconds>(wait.time, until - now));
    co_await timer.async_wait(asio::use_awaitable);
  }
  co_return Status();
}

}  // namespace tarn::target
