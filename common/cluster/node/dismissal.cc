#include "common/cluster/node/dismissal.h"

#include <algorithm>
#include <chrono>

#include <boost/asio/steady_timer.hpp>

#include "common/base/event.h"
#include "common/base/pause.h"
#include "common/base/process.h"
#include "common/cluster/place/hand_over.h"
#include "common/cluster/state/cluster_end.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

constexpr std::chrono::milliseconds kDismissalLookEvery{500};
constexpr std::chrono::milliseconds kDismissedLookEvery{100};
constexpr std::chrono::seconds kTryAgain{2};

/// True if a node in maintenance that is to end may do so: its names have moved.
bool may_end(const ClusterState& state, const std::string& id) {
  const Node* self = state.map.find(id);
  if (self == nullptr || (self->flags & kStops) == 0 || (self->flags & kMaintenance) == 0)
    return false;
  return state.ownership->settled >= state.map.version &&
         std::none_of(state.map.past.begin(), state.map.past.end(),
                      [&](const PastEpoch& set) { return set.nodes.contains(id); });
}

void end_process(const std::string& id, const char* why) {
  obs::log("cluster").warn("{} node={}: the process ends", why, id);
  request_stop();
}

}  // namespace

Task<void> obey_dismissal(const ClusterView& view, const Membership& membership,
                          std::function<Task<Status>()> erase) {
  EventListener changes(view.changed(), co_await asio::this_coro::executor);
  const std::string id = membership.self().id;
  bool gone = false;  // and all steps after that are done
  while (true) {
    co_await changes.wait_until(
        next_tick(membership.dismissed() ? kDismissedLookEvery : kDismissalLookEvery));
    const auto flags = membership.dismissed();
    if (!flags) {
      gone = false;
      if (target_is_to_end(*view.state(), id)) {
        end_process(id, "the cluster is decommissioned");
        co_return;
      }
      if (may_end(*view.state(), id)) {
        end_process(id, "in maintenance");
        co_return;
      }
      continue;
    }
    if (gone) continue;
    if (erase && (*flags & kErases) != 0) {
      // No registration is on its way that could make it a member again meanwhile.
      if (!membership.is_outside()) continue;
      const Status erased = co_await erase();
      if (!erased) {
        obs::log("cluster").warn("not all erased yet node={} err={}", id, erased.error().message);
        co_await pause(kTryAgain);
        continue;
      }
    }
    gone = true;
    if ((*flags & kStops) == 0) continue;
    end_process(id, "taken out of the cluster");
    co_return;
  }
}

}  // namespace tarn::cluster
