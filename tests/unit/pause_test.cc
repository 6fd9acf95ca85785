#include "common/base/pause.h"

#include <memory>

#include "run_task.h"
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>

#include "common/cluster/store/attempts.h"

namespace pause_test {

using namespace tarn;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

steady_clock::duration taken(Task<void> task) {
  test::TaskRunner run;
  const auto begun = steady_clock::now();
  run(std::move(task));
  return steady_clock::now() - begun;
}

TEST_CASE("pause: waits for a time, or until a point of time", "[base]") {
  CHECK(taken(pause(20ms)) >= 20ms);
  CHECK(taken(pause_until(steady_clock::now() + 20ms)) >= 15ms);
  CHECK(taken(pause_up_to(5ms)) >= 1ms);
}

TEST_CASE("pause: a cancelled coroutine does not wait to the end", "[base]") {
  asio::io_context context;
  asio::cancellation_signal signal;
  bool ended = false;
  asio::co_spawn(context, pause(std::chrono::hours(1)),
                 asio::bind_cancellation_slot(signal.slot(),
                                              [&](const std::exception_ptr&) { ended = true; }));
  context.run_for(10ms);
  CHECK_FALSE(ended);
  signal.emit(asio::cancellation_type::terminal);
  context.restart();
  context.run();  // would last an hour
  CHECK(ended);
}

Task<int> count_attempts() {
  int count = 0;
  for (cluster::Attempts attempts; co_await attempts.next();) ++count;
  co_return count;
}

TEST_CASE("attempts: as many as are allowed, with pauses between them", "[cluster]") {
  test::TaskRunner run;
  const auto begun = steady_clock::now();
  CHECK(run(count_attempts()) == cluster::Attempts::kMost);
  CHECK(steady_clock::now() - begun >= std::chrono::milliseconds(cluster::Attempts::kMost - 1));
}

}  // namespace pause_test
