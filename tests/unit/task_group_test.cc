#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <catch2/catch.hpp>

#include "common/base/resume.h"
#include "common/obs/log.h"
#include "tests/unit/run_task.h"

namespace task_group_test {

using namespace tarn;
using namespace tarn::test;

Task<void> wait_for_ever() {
  asio::steady_timer timer(co_await asio::this_coro::executor, std::chrono::hours(1));
  co_await timer.async_wait(asio::use_awaitable);
}

/// Does not heed a cancellation.
Task<void> wait_for(std::atomic<bool>& open) {
  co_await asio::this_coro::throw_if_cancelled(false);
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (!open) {
    timer.expires_after(std::chrono::milliseconds(1));
    (void)co_await timer.async_wait(kTuple);
  }
}

Task<int> a_value() { co_return 7; }

/// Awaits something that turns exceptions off, and waits then.
Task<void> wait_after_values() {
  (void)co_await cancellation_as_value(a_value());
  co_await wait_for_ever();
}

Task<int> throws_of_itself() {
  throw std::runtime_error("no");
  co_return 0;
}

Task<bool> still_throws_when_cancelled() {
  bool threw = false;
  try {
    (void)co_await cancellation_as_value(throws_of_itself());
  } catch (const std::runtime_error&) {
    threw = true;
  }
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_return threw&& throws;
}

TEST_CASE("tasks: those that do not end are named", "[http][tasks]") {
  TaskRunner run;
  http::TaskGroup tasks;
  std::atomic<bool> open = false;
  REQUIRE(tasks.spawn(run.executor(), "waiter", wait_for_ever()));
  REQUIRE(tasks.spawn(run.executor(), "stuck", wait_for(open)));
  REQUIRE(tasks.spawn(run.executor(), "waiter", wait_for_ever()));
  CHECK(tasks.names() == "stuck, waiter x2");
  CHECK_FALSE(tasks.close(0.01));
  CHECK(eventually([&] { return tasks.names() == "stuck"; }));
  CHECK_FALSE(tasks.close(0.01));
  CHECK(obs::log_tail("warn")->text.find("tasks still run seconds=0.01 tasks=stuck\n") !=
        std::string::npos);
  open = true;
  CHECK(tasks.close(90));
  CHECK(tasks.names().empty());
}

TEST_CASE("tasks: one that awaited what takes a cancellation as a value is stopped",
          "[http][tasks]") {
  TaskRunner run;
  http::TaskGroup tasks;
  REQUIRE(tasks.spawn(run.executor(), "waiter", wait_after_values()));
  CHECK(tasks.close(90));
  CHECK(run(cancellation_as_value(a_value())) == 7);
  CHECK(run(still_throws_when_cancelled()));
}

TEST_CASE("tasks: one that its own loop has spawned and not begun is stopped", "[http][tasks]") {
  TaskRunner run;
  http::TaskGroup tasks;
  std::promise<void> spawned;
  std::promise<void> may_go_on;
  // A loop queues the posts of its own handler when the handler has ended.
  asio::post(run.executor(), [&] {
    REQUIRE(tasks.spawn(run.executor(), "waiter", wait_for_ever()));
    spawned.set_value();
    may_go_on.get_future().wait();
  });
  spawned.get_future().wait();
  auto closed = std::async(std::launch::async, [&] { return tasks.close(60); });
  // The group refuses new tasks from the moment that it signals the old ones.
  while (tasks.spawn(run.executor(), "waiter", wait_for_ever())) std::this_thread::yield();
  may_go_on.set_value();
  CHECK(closed.get());
}

}  // namespace task_group_test
