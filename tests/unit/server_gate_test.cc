#include "target/upstream/server_gate.h"

#include <future>
#include <optional>

#include <catch2/catch.hpp>

#include "tests/unit/run_task.h"

namespace server_gate_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::test;
using namespace std::chrono_literals;

struct GateFixture {
  explicit GateFixture(std::size_t requests = 4)
      : gate(std::make_shared<ServerGate>(requests, clock)) {}
  /// One request; true if it was admitted.
  bool ask(bool answered) {
    auto pass = run(gate->enter());
    if (pass) pass->note(answered);
    return pass.has_value();
  }
  void fail_often() {
    for (unsigned i = 0; i < ServerGate::kFailuresMax; ++i) REQUIRE(ask(false));
  }

  ManualClock clock;
  TaskRunner run;
  std::shared_ptr<ServerGate> gate;
};

TEST_CASE("server gate: a server that fails in a row is left alone", "[upstream]") {
  GateFixture all;
  for (int i = 0; i < 100; ++i) {
    CHECK(all.ask(false));
    CHECK(all.ask(true));  // in a row means without an answer between
  }
  all.fail_often();
  CHECK(all.gate->is_open());
  const auto refused = all.run(all.gate->enter());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unavailable);
  CHECK(refused.error().message == "it failed 16 times in a row, and is asked again in 1 s");
  all.clock.advance(999ms);
  CHECK_FALSE(all.ask(true));
}

TEST_CASE("server gate: a request that takes the place of another one ends that", "[upstream]") {
  GateFixture all(2);
  for (int i = 0; i < 10; ++i) {
    auto broken = all.run(all.gate->enter());
    auto next = all.run(all.gate->enter());
    REQUIRE((broken && next));
    *broken = std::move(*next);
    CHECK(all.ask(true));
  }
}

TEST_CASE("server gate: one request looks if the server answers again", "[upstream]") {
  GateFixture all;
  all.fail_often();
  all.clock.advance(1s);
  {
    auto first = all.run(all.gate->enter());
    REQUIRE(first);
    CHECK_FALSE(all.ask(true));  // while the first one is under way
    first->note(true);
  }
  CHECK_FALSE(all.gate->is_open());
  CHECK(all.ask(true));

  all.fail_often();
  for (const auto wait : {1s, 2s, 4s, 8s, 16s, 30s, 30s}) {
    all.clock.advance(wait - 1ms);
    CHECK_FALSE(all.ask(true));
    all.clock.advance(1ms);
    CHECK(all.ask(false));
  }
  // A request that never ends keeps others out for no longer than one that failed.
  all.clock.advance(30s);
  auto lost = all.run(all.gate->enter());
  REQUIRE(lost);
  all.clock.advance(30s);
  CHECK(all.ask(true));
}

TEST_CASE("server gate: as many requests as are allowed are under way", "[upstream]") {
  GateFixture all(2);
  std::optional first = all.run(all.gate->enter());
  std::optional second = all.run(all.gate->enter());
  REQUIRE(*first);
  REQUIRE(*second);
  auto third = asio::co_spawn(all.run.executor(), all.gate->enter(), asio::use_future);
  CHECK(third.wait_for(50ms) == std::future_status::timeout);
  second.reset();
  const auto entered = third.get();
  CHECK(entered);
}

}  // namespace server_gate_test
