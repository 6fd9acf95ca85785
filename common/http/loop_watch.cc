#include "common/http/loop_watch.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/pause.h"

namespace tarn::http {
namespace {

constexpr std::chrono::milliseconds kPeriod{10};
constexpr std::chrono::milliseconds kPeriodWhenQuiescent{1'000};
/// Share of a processor between two looks. Leases and heartbeats alone take 1 % of a slow one.
constexpr double kQuiescent = 0.03;
constexpr std::chrono::milliseconds kStall{20};

struct Stalls {
  prometheus::Counter& count;
  prometheus::Counter& seconds;
};

/// Point at which a test holds up a loop.
Status come_round(const Loop& loop) {
  FAIL_POINT_OF("loop.turn.", loop.name());
  return {};
}

/// Processor time of the calling thread so far.
std::chrono::nanoseconds thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// A node has several loops, and most of them are idle most of the time: a look that wakes a
/// processor a hundred times a second would be most of what they cost.
Task<void> watch(Loop& loop, Stalls stalls) {
  auto worked = thread_time();
  auto looked = std::chrono::steady_clock::now();
  while (true) {
    const auto worked_before = std::exchange(worked, thread_time());
    const auto looked_before = std::exchange(looked, std::chrono::steady_clock::now());
    const std::chrono::duration<double> work = worked - worked_before;
    const bool is_quiescent = work < kQuiescent * (looked - looked_before);
    const auto due = is_quiescent ? next_tick(kPeriodWhenQuiescent) : looked + kPeriod;
    co_await pause_until(due);
    loop.comes_round();
    static_cast<void>(come_round(loop));
    const auto late = std::chrono::steady_clock::now() - due;
    if (late <= kStall) continue;
    stalls.count.Increment();
    stalls.seconds.Increment(std::chrono::duration<double>(late).count());
  }
}

}  // namespace

Task<void> every(std::chrono::milliseconds period, std::function<void()> work) {
  while (true) {
    co_await pause_until(next_tick(period));
    work();
  }
}

void watch_loops(obs::Metrics& metrics, Loops& loops, TaskGroup& group) {
  for (std::size_t i = 0; i < loops.size(); ++i) {
    loops.at(i).comes_round();
    const obs::Labels labels{{"loop", loops.at(i).name()}};
    Stalls stalls{metrics.counter("tarn_loop_stalls_total",
                                  "Times that an event loop was held up over 20 ms.", labels),
                  metrics.counter("tarn_loop_stall_seconds_total",
                                  "Seconds that event loops were held up over 20 ms.", labels)};
    group.spawn(loops.at(i).executor(), "loop watch", watch(loops.at(i), stalls));
  }
}

std::chrono::nanoseconds longest_silence(Loops& loops) {
  auto oldest = loops.at(0).came_round();
  for (std::size_t i = 1; i < loops.size(); ++i)
    oldest = std::min(oldest, loops.at(i).came_round());
  return std::chrono::steady_clock::now() - oldest;
}

}  // namespace tarn::http
