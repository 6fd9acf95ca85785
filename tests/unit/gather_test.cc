#include "common/base/gather.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/steady_timer.hpp>
#include <catch2/catch.hpp>

#include "tests/unit/run_task.h"

using namespace std::chrono_literals;

namespace tarn {
namespace gather_test {

/// Sleeps; `late` counts those that slept to their end.
Task<std::string> after(std::chrono::milliseconds time, std::string what, int& late) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(time);
  co_await timer.async_wait(asio::use_awaitable);
  ++late;
  co_return what;
}

Task<std::string> throws() {
  throw std::runtime_error("no");
  co_return "";
}

Task<void> nothing() { co_return; }

/// Waits until it is cancelled, which throws nothing here, and begins `work` then.
Task<void> begin_late(Task<void> work, std::atomic<bool>& waits) {
  co_await asio::this_coro::throw_if_cancelled(false);
  asio::steady_timer timer(co_await asio::this_coro::executor, 1h);
  waits = true;
  (void)co_await timer.async_wait(kTuple);
  co_await std::move(work);
}

Task<void> gather_two(int& late) {
  std::vector<Task<std::string>> tasks;
  tasks.push_back(after(1h, "a", late));
  tasks.push_back(after(1h, "b", late));
  (void)co_await gather(std::move(tasks));
}

Task<void> first_of_two(int& late) {
  (void)co_await first_of(after(1h, "a", late), after(1h, "b", late));
}

TEST_CASE("gather, first_of: a cancellation from before they began ends their tasks") {
  test::TaskRunner run;
  int late = 0;
  for (const bool all : {true, false}) {
    http::TaskGroup group;
    std::atomic<bool> waits = false;
    group.spawn(run.executor(), "late",
                begin_late(all ? gather_two(late) : first_of_two(late), waits));
    while (!waits) std::this_thread::yield();
    CHECK(group.close(90));
  }
  CHECK(late == 0);
}

TEST_CASE("gather: results stand in the order of the tasks, whichever ends first") {
  test::TaskRunner run;
  int late = 0;
  std::vector<Task<std::string>> tasks;
  tasks.push_back(after(20ms, "a", late));
  tasks.push_back(after(0ms, "b", late));
  CHECK(run(gather(std::move(tasks))) == std::vector<std::string>{"a", "b"});
  CHECK(late == 2);
  CHECK(run(gather(std::vector<Task<std::string>>())).empty());
}

TEST_CASE("gather: what a task throws ends the others and is thrown") {
  test::TaskRunner run;
  int late = 0;
  std::vector<Task<std::string>> tasks;
  tasks.push_back(after(60s, "a", late));
  tasks.push_back(throws());
  CHECK_THROWS_WITH(run(gather(std::move(tasks))), "no");
  CHECK(late == 0);
}

/// Work of gather_at_most() that counts how much of it runs at a time.
struct Counted {
  std::vector<std::size_t> begun;
  std::size_t running = 0;
  std::size_t most = 0;

  Task<Status> take(std::size_t at, std::size_t fails_at) {
    begun.push_back(at);
    most = std::max(most, ++running);
    asio::steady_timer timer(co_await asio::this_coro::executor, 1ms);
    co_await timer.async_wait(asio::use_awaitable);
    --running;
    if (at >= fails_at) co_return fail(Errc::io, "no {}", at);
    co_return Status();
  }
};

TEST_CASE("gather_at_most: all in order, so many at a time, none after one that fails") {
  test::TaskRunner run;
  for (const std::size_t at_once : {1U, 3U, 20U}) {
    Counted all;
    CHECK(run(gather_at_most(at_once, 10, [&](std::size_t at) { return all.take(at, 10); })));
    CHECK(all.begun == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    CHECK(all.most == std::min<std::size_t>(at_once, 10));
    Counted some;
    const Status ended =
        run(gather_at_most(at_once, 10, [&](std::size_t at) { return some.take(at, 4); }));
    REQUIRE_FALSE(ended);
    CHECK(ended.error().message == "no 4");
    CHECK(some.begun.size() <= 4 + at_once);
    CHECK(some.running == 0);
  }
  CHECK(run(gather_at_most(4, 0, [](std::size_t) -> Task<Status> { throw 1; })));
}

TEST_CASE("first_of: the first to end is told by its place, and the other one is ended") {
  test::TaskRunner run;
  int late = 0;
  const auto left = run(first_of(after(0ms, "a", late), after(60s, "b", late)));
  CHECK(std::get<0>(left) == "a");
  const auto right = run(first_of(after(60s, "a", late), nothing()));
  CHECK(right.index() == 1);
  CHECK(late == 1);
  CHECK_THROWS_WITH(run(first_of(after(60s, "a", late), throws())), "no");
}

}  // namespace gather_test
}  // namespace tarn
