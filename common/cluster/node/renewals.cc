#include "common/cluster/node/renewals.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "common/base/event.h"
#include "common/base/gather.h"
#include "common/base/resume.h"

namespace tarn::cluster {
namespace {

using std::chrono::steady_clock;

constexpr int kLanes = 4;  // calls on their way at once

/// Turns of the lanes to call, and their times. Of one loop.
class Turns {
 public:
  Turns(const asio::any_io_executor& executor, RenewalRhythm rhythm,
        std::function<Task<bool>()> renew)
      : rhythm_(rhythm), renew_(std::move(renew)), timer_(executor) {
    set(steady_clock::now());
  }

  /// Calls whenever there is a turn and no other lane has taken it.
  Task<void> lane() {
    co_await asio::this_coro::throw_if_cancelled(false);
    while (!co_await is_cancelled()) {
      if (steady_clock::now() < due_) {
        (void)co_await timer_.async_wait(kTuple);  // ended early when the turn is another one
        continue;
      }
      set(next_tick(rhythm_.every));
      const bool renewed = co_await renew_();
      if (!renewed) set(std::min(due_, steady_clock::now() + rhythm_.again));
    }
  }

 private:
  void set(steady_clock::time_point due) {
    due_ = due;
    timer_.expires_at(due);  // wakes all lanes that wait
  }

  RenewalRhythm rhythm_;
  std::function<Task<bool>()> renew_;
  asio::steady_timer timer_;
  steady_clock::time_point due_;
};

}  // namespace

Task<void> renew_at_intervals(RenewalRhythm rhythm, std::function<Task<bool>()> renew) {
  co_await asio::this_coro::throw_if_cancelled(false);
  // A cancellation that came before the lanes are joined would reach none of them.
  if (co_await is_cancelled()) co_return;
  Turns turns(co_await asio::this_coro::executor, rhythm, std::move(renew));
  std::vector<Task<void>> lanes;
  lanes.reserve(kLanes);
  for (int i = 0; i < kLanes; ++i) lanes.push_back(turns.lane());
  co_await gather(std::move(lanes));
}

}  // namespace tarn::cluster
