#include "common/http/loop_watch.h"

#include <string>

#include <boost/asio/steady_timer.hpp>

namespace tarn::http {
namespace {

constexpr std::chrono::milliseconds kPeriod{10};
constexpr std::chrono::milliseconds kStall{20};

struct Stalls {
  prometheus::Counter& count;
  prometheus::Counter& seconds;
};

Task<void> watch(Stalls stalls) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (true) {
    const auto due = std::chrono::steady_clock::now() + kPeriod;
    timer.expires_at(due);
    co_await timer.async_wait(asio::use_awaitable);
    const auto late = std::chrono::steady_clock::now() - due;
    if (late <= kStall) continue;
    stalls.count.Increment();
    stalls.seconds.Increment(std::chrono::duration<double>(late).count());
  }
}

}  // namespace

Task<void> every(std::chrono::milliseconds period, std::function<void()> work) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (true) {
    timer.expires_after(period);
    co_await timer.async_wait(asio::use_awaitable);
    work();
  }
}

void watch_loops(obs::Metrics& metrics, Loops& loops, TaskGroup& group) {
  for (std::size_t i = 0; i < loops.size(); ++i) {
    const obs::Labels labels{{"loop", std::to_string(i)}};
    Stalls stalls{metrics.counter("tarn_loop_stalls_total",
                                  "Times that an event loop was held up over 20 ms.", labels),
                  metrics.counter("tarn_loop_stall_seconds_total",
                                  "Seconds that event loops were held up over 20 ms.", labels)};
    group.spawn(loops.at(i).executor(), watch(stalls));
  }
}

}  // namespace tarn::http
