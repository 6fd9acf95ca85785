#include "target/upstream/rate_limits.h"

#include <catch2/catch.hpp>

#include "tests/unit/run_task.h"

namespace rate_limits_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::test;
using namespace std::chrono_literals;

TEST_CASE("rate limits: turns are evenly spaced, and none is saved", "[upstream]") {
  RequestPace pace;
  CHECK(pace.take(100s, 2s, 60s) == 0s);
  CHECK(pace.take(100s, 2s, 60s) == 2s);
  CHECK(pace.take(101s, 2s, 60s) == 3s);
  CHECK(pace.wait(101s) == 5s);
  CHECK(pace.take(1000s, 2s, 60s) == 0s);  // after a pause one request, not fifty
  CHECK(pace.take(1000s, 2s, 60s) == 2s);
}

TEST_CASE("rate limits: a turn that is too far away is not taken", "[upstream]") {
  RequestPace pace;
  CHECK(pace.take(0s, 50s, 60s) == 0s);
  CHECK(pace.take(0s, 50s, 60s) == 50s);
  CHECK_FALSE(pace.take(0s, 50s, 60s));
  CHECK(pace.wait(0s) == 100s);
  CHECK(pace.take(40s, 50s, 60s) == 60s);
}

TEST_CASE("rate limits: a target has its share, for each bucket and kind", "[upstream]") {
  ManualClock clock;
  TaskRunner run;
  std::size_t targets = 4;
  RateLimits all(clock, [&] { return targets; });
  api::BackendRate rate;
  const auto ask = [&](const char* bucket, api::BackendRequest kind) {
    return run(all.enter(bucket, rate, kind));
  };
  for (int i = 0; i < 3; ++i) CHECK(ask("s3://a", api::BackendRequest::read));  // not limited
  rate.enabled = true;
  rate.interval = 1h;
  rate.reads = 8;
  rate.writes = 2;
  CHECK(ask("s3://a", api::BackendRequest::read));
  const Status refused = ask("s3://a", api::BackendRequest::read);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unavailable);
  CHECK(refused.error().message ==
        "rate_limit.backend of s3://a allows 8 reads in 3600 s to the whole cluster, and the next "
        "turn of this target is in 1800 s");
  CHECK(ask("s3://a", api::BackendRequest::write));
  CHECK(ask("s3://b", api::BackendRequest::read));
  clock.advance(30min);
  CHECK(ask("s3://a", api::BackendRequest::read));
  CHECK_FALSE(ask("s3://a", api::BackendRequest::write));
  targets = 1;  // a turn that was taken stays taken; the next one comes sooner
  clock.advance(30min);
  CHECK(ask("s3://a", api::BackendRequest::read));
  clock.advance(450s);
  CHECK(ask("s3://a", api::BackendRequest::read));
}

}  // namespace rate_limits_test
