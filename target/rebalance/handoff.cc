#include "target/rebalance/handoff.h"

#include <algorithm>

#include <boost/asio/steady_timer.hpp>

#include "common/base/event.h"
#include "common/base/gather.h"
#include "common/cluster/state/member_change.h"
#include "common/obs/log.h"
#include "target/coded/slice_holder.h"
#include "target/rebalance/rebalance.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using State = api::MoveReport::State;

constexpr auto kHandoffLookEvery = 100ms;
constexpr auto kHandoffRestEvery = 1'000ms;  // while all is in place
constexpr std::chrono::milliseconds kHandoffAgainFirst = 500ms;
constexpr std::chrono::milliseconds kAgainMax = 10s;

bool may_move(const TargetNode& node) {
  return cluster::may_move_names(node.view.state()->map, node.id, node.handoff.enabled);
}

/// One walk, and its watcher. All of it runs on one loop.
class OneWalk {
 public:
  OneWalk(TargetNode& node, std::shared_ptr<const cluster::Ownership> map,
          const asio::any_io_executor& executor)
      : node_(node), map_(std::move(map)), wake_(executor) {}

  Task<Status> run() {
    const Status done = co_await rebalance_walk(node_, map_, progress_, stop_.get_token());
    if (!done) progress_.counts.error = done.error().message;
    progress_.counts.done = true;
    wake_.cancel();
    co_return done;
  }

  /// Reports how far it is, and ends it when it is no longer wanted.
  Task<Status> watch() {
    while (!progress_.counts.done) {
      node_.handoff.update(progress_, node_.clock);
      if (!may_move(node_)) stop_.request_stop();
      wake_.expires_after(kHandoffLookEvery);
      static_cast<void>(co_await wake_.async_wait(kTuple));
    }
    node_.handoff.end(progress_, node_.clock);
    co_return Status();
  }

  void log_end() const {
    const auto& counts = progress_.counts;
    if (counts.error.empty() && counts.deleted == 0 && counts.objects == 0) return;
    obs::log("target").info("rebalance ended map={} objects={} bytes={} deleted={} clean={} err={}",
                            map_->version, counts.objects, counts.bytes, counts.deleted,
                            progress_.clean, counts.error);
  }

 private:
  TargetNode& node_;
  const std::shared_ptr<const cluster::Ownership> map_;
  std::stop_source stop_;
  asio::steady_timer wake_;  // of the watcher
  api::MoveProgress progress_;
};

enum class HandoffWalked : std::uint8_t {
  clean,         ///< no record here belongs elsewhere by this map
  more_to_come,  ///< none did, but writes of names that other targets own now are under way
  failed,
  has_slices  ///< no record does, but this target leaves, and slices are here
};

Task<HandoffWalked> walk_once(TargetNode& node, std::shared_ptr<const cluster::Ownership> map) {
  // Read before the walk: by this map no further writes of names of other targets begin.
  const bool only_ours = node.owned.only_ours_under_way();
  node.handoff.begin(map->version, node.clock);
  OneWalk walk(node, std::move(map), co_await asio::this_coro::executor);
  std::vector<Task<Status>> both;
  both.push_back(walk.run());
  both.push_back(walk.watch());
  const auto results = co_await gather(std::move(both));
  walk.log_end();
  if (!results.front()) co_return HandoffWalked::failed;
  const auto slices = co_await is_needed_for_slices(node);
  if (!slices) co_return HandoffWalked::failed;
  if (*slices) co_return HandoffWalked::has_slices;
  co_return only_ours ? HandoffWalked::clean : HandoffWalked::more_to_come;
}

}  // namespace

Task<void> handoff(TargetNode& node) {
  EventListener changes(node.view.changed(), co_await asio::this_coro::executor);
  std::uint64_t version = 0;                     // of the map that was seen last
  HandoffWalked walked = HandoffWalked::failed;  // by that version
  std::chrono::milliseconds pause{};
  std::chrono::steady_clock::time_point again{};
  // A walk that was asked for before this start may have ended in the middle: another one costs
  // little, a look through the indexes.
  std::uint64_t looked = 0;
  bool is_quiescent = false;
  while (true) {
    co_await changes.wait_until(next_tick(is_quiescent ? kHandoffRestEvery : kHandoffLookEvery));
    const auto state = node.owned.state();
    const auto known = node.view.state();
    if (known->map.version != state->map->version) continue;
    if (state->map->version != version) {
      version = state->map->version;
      walked = HandoffWalked::failed;
      pause = kHandoffAgainFirst;
      again = {};
    }
    const std::uint64_t asked = known->map.rebalance.asked;
    // Without a past epoch nothing is misplaced.
    const bool done = walked == HandoffWalked::clean;
    is_quiescent = done || (state->map->past.empty() && asked <= looked);
    if (is_quiescent) {
      node.handoff.set_state(version, State::in_place);
      continue;
    }
    const bool wanted = may_move(node);
    node.handoff.set_state(version, wanted ? State::waiting : State::held);
    if (!wanted || state->settled < version) continue;
    if (!node.membership.lease().valid()) continue;
    const bool all_came = walked == HandoffWalked::more_to_come && node.owned.only_ours_under_way();
    if (!all_came && std::chrono::steady_clock::now() < again) continue;
    walked = co_await walk_once(node, state->map);
    if (walked == HandoffWalked::clean) {
      node.owned.holds_only_ours(version);
      looked = std::max(looked, asked);
    }
    again = std::chrono::steady_clock::now() + pause;
    pause = std::min(pause * 2, kAgainMax);
  }
}

}  // namespace tarn::target
