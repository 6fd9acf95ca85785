#include "target/node/handoff_progress.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace tarn::target {
namespace handoff_progress_test {

using State = api::MoveReport::State;
using namespace std::chrono_literals;

TEST_CASE("move: a target tells how far it is, how fast, and how long it takes", "[move]") {
  ManualClock clock;
  HandoffProgress moves;
  CHECK(moves.report() == api::MoveReport());
  moves.set_state(7, State::waiting);
  CHECK_FALSE(moves.report().seconds_left());
  moves.begin(7, clock);
  api::MoveProgress progress;
  progress.kind = "rebalance";
  progress.map_version = 7;
  progress.left_bytes = 1'000'000;
  const auto go_on = [&](std::uint64_t bytes_a_second, int seconds) {
    for (int i = 0; i < 10 * seconds; ++i) {
      clock.advance(100ms);
      progress.counts.bytes += bytes_a_second / 10;
      moves.update(progress, clock);
    }
  };
  go_on(1'000, 1);
  CHECK(moves.report().rate == 1'000);
  CHECK(moves.report().seconds_left() == 1'000.0);
  CHECK(moves.report().state == State::walking);
  CHECK(moves.report().ended_ns == 0);
  go_on(10'000, 30);
  CHECK(moves.report().rate > 9'900);
  CHECK(moves.report().rate <= 10'000);
  const auto sent = nlohmann::json(moves.report());
  CHECK(sent["seconds_left"].is_number());
  CHECK(sent.get<api::MoveReport>() == moves.report());
  progress.counts.done = true;
  moves.end(progress, clock);
  CHECK(moves.report().ended_ns > moves.report().started_ns);
  CHECK(moves.report().walk.counts.bytes == 301'000);
  moves.set_state(7, State::in_place);
  CHECK(moves.report().seconds_left() == 0.0);
  CHECK(nlohmann::json(moves.report())["state"] == "in_place");
  // The next walk begins from nothing.
  moves.begin(8, clock);
  CHECK(moves.report().walk.counts.bytes == 0);
  CHECK(moves.report().map_version == 8);
}

}  // namespace handoff_progress_test
}  // namespace tarn::target
