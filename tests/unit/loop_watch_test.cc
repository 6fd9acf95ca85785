#include "common/http/loop_watch.h"

#include <unistd.h>

#include <catch2/catch.hpp>

namespace loop_watch_test {

using namespace tarn;

TEST_CASE("loop watch: a loop that was held up is counted, and one that was not is not",
          "[http][loops]") {
  obs::Metrics metrics;
  http::Loops loops(2);
  http::TaskGroup group;
  http::watch_loops(metrics, loops, group);
  const auto stalls = [&](const char* loop) -> double {
    return metrics
        .counter("tarn_loop_stalls_total", "Times that an event loop was held up over 20 ms.",
                 {{"loop", loop}})
        .Value();
  };
  ::usleep(30'000);
  const double before = stalls("0");
  loops.run_on_each([](http::Loop& loop) {
    if (loop.index() == 0) ::usleep(1'200'000);  // an idle loop is checked once a second
  });
  loops.run_on_each([](http::Loop&) {});
  for (int i = 0; i < 6'000 && stalls("0") == before; ++i) ::usleep(10'000);
  CHECK(stalls("0") > before);
  CHECK(group.close(60));
  loops.stop();
}

}  // namespace loop_watch_test
