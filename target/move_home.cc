#include "target/move_home.h"

#include <algorithm>

#include <boost/asio/steady_timer.hpp>

#include "common/obs/log.h"
#include "target/rebalance.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookEvery = 100ms;
constexpr std::chrono::milliseconds kAgainFirst = 500ms;
constexpr std::chrono::milliseconds kAgainMax = 10s;

/// One walk. True: no record here belongs elsewhere by this map.
Task<bool> walk_once(TargetNode& node, std::shared_ptr<const cluster::Ownership> map) {
  // Before it looks: by this map no more writes of others begin.
  const bool only_ours = node.owned.only_ours_under_way();
  api::MoveProgress progress;
  const Status done = co_await rebalance_walk(node, map, progress, {});
  const auto& counts = progress.counts;
  if (!done || counts.deleted > 0)
    obs::log("target").info("rebalance ended map={} objects={} bytes={} deleted={} clean={} err={}",
                            map->version, counts.objects, counts.bytes, counts.deleted,
                            progress.clean, done ? "" : done.error().message);
  co_return done&& only_ours;
}

}  // namespace

Task<void> move_home(TargetNode& node) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  std::uint64_t version = 0;  // of the map that was seen last
  bool done = false;          // by that version
  std::chrono::milliseconds pause{};
  std::chrono::steady_clock::time_point again{};
  while (true) {
    timer.expires_after(kLookEvery);
    co_await timer.async_wait(asio::use_awaitable);
    const auto state = node.owned.state();
    if (state->map->version != version) {
      version = state->map->version;
      done = false;
      pause = kAgainFirst;
      again = {};
    }
    // Without a past set nothing lies where it is not at home.
    if (done || state->map->past.empty() || state->settled < version) continue;
    if (!node.membership.lease().valid() || std::chrono::steady_clock::now() < again) continue;
    done = co_await walk_once(node, state->map);
    if (done) node.owned.holds_only_ours(version);
    again = std::chrono::steady_clock::now() + pause;
    pause = std::min(pause * 2, kAgainMax);
  }
}

}  // namespace tarn::target
