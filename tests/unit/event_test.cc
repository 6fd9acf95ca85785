#include "common/base/event.h"

#include <atomic>
#include <thread>

#include <catch2/catch.hpp>

#include "common/base/run_blocking.h"
#include "common/http/loops.h"

namespace event_test {

using namespace tarn;
using std::chrono::steady_clock;

constexpr auto kGuard = std::chrono::seconds(90);

Task<void> listen(Event& event, std::atomic<int>& listening, std::atomic<int>& heard) {
  EventListener listener(event, co_await asio::this_coro::executor);
  ++listening;
  const auto guard = steady_clock::now() + kGuard;
  co_await listener.wait_until(guard);
  if (steady_clock::now() < guard) ++heard;
}

Task<bool> hears_what_rang_before(Event& event) {
  EventListener listener(event, co_await asio::this_coro::executor);
  event.ring();
  co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
  const auto guard = steady_clock::now() + kGuard;
  co_await listener.wait_until(guard);
  co_return steady_clock::now() < guard;
}

Task<void> wait_for_nothing(Event& event) {
  EventListener listener(event, co_await asio::this_coro::executor);
  co_await listener.wait_until(steady_clock::now() + std::chrono::milliseconds(20));
}

TEST_CASE("event: a ring from another thread wakes all that listen", "[base][event]") {
  http::Loops loops(2);
  Event event;
  std::atomic<int> listening = 0;
  std::atomic<int> heard = 0;
  http::TaskGroup group;
  for (std::size_t i = 0; i < 10; ++i)
    group.spawn(loops.at(i % 2).executor(), "listener", listen(event, listening, heard));
  while (listening < 10) std::this_thread::yield();
  event.ring();
  group.wait(90);
  CHECK(heard == 10);
  loops.stop();
}

TEST_CASE("event: what rang between two waits ends the next one", "[base][event]") {
  http::Loops loops(1);
  Event event;
  CHECK(run_blocking(loops.at(0).executor(), hears_what_rang_before(event)));
  run_blocking(loops.at(0).executor(), wait_for_nothing(event));  // ends by its deadline
  loops.stop();
}

TEST_CASE("event: a tick is a whole multiple of its period, and not past", "[base][event]") {
  for (const int period : {1, 7, 250, 1000}) {
    const auto now = steady_clock::now();
    const auto tick = next_tick(std::chrono::milliseconds(period));
    CHECK(tick > now);
    CHECK(tick - now <= std::chrono::milliseconds(period) + (steady_clock::now() - now));
    CHECK(tick.time_since_epoch() % std::chrono::milliseconds(period) == steady_clock::duration{});
  }
}

}  // namespace event_test
