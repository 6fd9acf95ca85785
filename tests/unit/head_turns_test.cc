#include "target/drive/head_turns.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace head_turns_test {

using namespace tarn::target;

constexpr std::uint64_t kMiB = 1U << 20U;

struct Asked {
  HeadTurns turns;
  std::vector<std::string> started;
  HeadTurns::Age age{};

  explicit Asked(const HeadTurns::Limits& limits) : turns(limits) {}
  void ask(const std::string& who, std::uint64_t bytes) {
    turns.ask(bytes, [this, who](HeadTurns::Age its) {
      started.push_back(who);
      age = its;
    });
  }
};

TEST_CASE("turns: one window at a time, first come first served", "[target][turns]") {
  Asked asked({1, 8 * kMiB, 16 * kMiB, 256 * kMiB});
  for (const char* who : {"a", "b", "c"}) asked.ask(who, 16 * kMiB);
  CHECK(asked.started == std::vector<std::string>{"a"});
  CHECK(asked.turns.waiting() == 2);
  asked.turns.done();
  CHECK(asked.started == std::vector<std::string>{"a", "b"});
  asked.turns.done();
  asked.turns.done();
  CHECK(asked.started == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("turns: what waits in the background is not a client that waits", "[target][turns]") {
  HeadTurns turns({1, 8 * kMiB, 16 * kMiB, 256 * kMiB});
  const auto nothing = [](HeadTurns::Age) {};
  turns.ask(0, nothing);  // has the turn
  turns.ask(0, nothing, nullptr, TurnFor::background);
  CHECK(turns.waiting() == 1);
  CHECK_FALSE(turns.clients_wait());
  CHECK(turns.window(TurnFor::background) == turns.window());
  turns.ask(0, nothing);
  CHECK(turns.clients_wait());
  CHECK(turns.window(TurnFor::background) == 2 * kMiB);
  CHECK(turns.window() == 16 * kMiB);
  turns.done();
  turns.done();  // the client has it now, and is remembered
  CHECK(turns.waiting() == 0);
  turns.tick();
  CHECK(turns.clients_wait());
  turns.tick();
  CHECK_FALSE(turns.clients_wait());
  turns.done();
  turns.ask(0, nothing);  // alone: it has to wait for nothing
  CHECK_FALSE(turns.clients_wait());
}

TEST_CASE("turns: of N streams that ask again and again none waits longer than one round",
          "[target][turns]") {
  HeadTurns turns({1, 8 * kMiB, 16 * kMiB, 256 * kMiB});
  constexpr std::size_t kStreams = 64;
  std::vector<std::size_t> order;
  // Each asks for its next window when it is given one, as ReadAhead does.
  std::function<void(std::size_t)> ask = [&](std::size_t stream) {
    turns.ask(8 * kMiB, [&, stream](HeadTurns::Age age) {
      order.push_back(stream);
      turns.release(age, 8 * kMiB);
    });
  };
  for (std::size_t stream = 0; stream < kStreams; ++stream) ask(stream);
  for (std::size_t i = 0; i < 10 * kStreams; ++i) {
    ask(order.back());
    turns.done();
  }
  for (std::size_t i = kStreams; i < order.size(); ++i) CHECK(order[i] == order[i - kStreams]);
}

TEST_CASE("turns: what was read and not sent is bounded by the budget", "[target][turns]") {
  Asked asked({4, 8 * kMiB, 8 * kMiB, 24 * kMiB});
  for (const char* who : {"a", "b", "c", "d"}) asked.ask(who, 8 * kMiB);
  CHECK(asked.started.size() == 3);
  asked.turns.done();
  CHECK(asked.started.size() == 3);  // a turn is free, the budget is not
  asked.turns.release(asked.age, 4 * kMiB);
  CHECK(asked.started.size() == 3);
  asked.turns.release(asked.age, 4 * kMiB);
  CHECK(asked.started.size() == 4);
}

TEST_CASE("turns: a window larger than the budget is read when nothing else is held",
          "[target][turns]") {
  Asked asked({1, 8 * kMiB, 8 * kMiB, 4 * kMiB});
  asked.ask("a", 8 * kMiB);
  CHECK(asked.started.size() == 1);
}

TEST_CASE("turns: slow readers that hold the budget are forgiven after a second or two",
          "[target][turns]") {
  Asked asked({1, 8 * kMiB, 8 * kMiB, 16 * kMiB});
  asked.ask("slow", 16 * kMiB);
  const HeadTurns::Age slow = asked.age;
  asked.turns.done();
  asked.ask("fast", 8 * kMiB);
  CHECK(asked.started.size() == 1);
  asked.turns.tick();
  CHECK(asked.started.size() == 1);  // something was granted since the tick before
  asked.turns.tick();
  CHECK(asked.started == std::vector<std::string>{"slow", "fast"});
  asked.turns.done();
  asked.turns.release(slow, 16 * kMiB);  // forgiven: counts for nothing
  asked.ask("a", 8 * kMiB);
  asked.turns.done();
  asked.ask("b", 8 * kMiB);
  CHECK(asked.started.size() == 3);  // "fast" and "a" fill the budget
}

TEST_CASE("turns: a drive that is being read is not mistaken for slow readers", "[target][turns]") {
  Asked asked({1, 8 * kMiB, 8 * kMiB, 16 * kMiB});
  asked.ask("a", 8 * kMiB);
  asked.ask("b", 16 * kMiB);
  asked.turns.tick();
  asked.turns.tick();
  CHECK(asked.started.size() == 1);
}

TEST_CASE("turns: of a drive that does not answer who waits is refused, and asks again later",
          "[target][turns]") {
  Asked asked({1, 8 * kMiB, 8 * kMiB, 256 * kMiB});
  std::vector<std::string> refused;
  const auto ask = [&](const std::string& who) {
    asked.turns.ask(
        0, [&, who](HeadTurns::Age) { asked.started.push_back(who); },
        [&, who](const tarn::Error&) { refused.push_back(who); });
  };
  asked.ask("hangs", 8 * kMiB);
  ask("waits");
  asked.ask("index", 0);  // cannot be refused
  asked.turns.refuse({tarn::Errc::unavailable, "it hangs"});
  ask("comes");
  CHECK(refused == std::vector<std::string>{"waits", "comes"});
  CHECK(asked.turns.waiting() == 1);
  asked.turns.done();
  CHECK(asked.started == std::vector<std::string>{"hangs", "index"});
  asked.turns.accept();
  asked.turns.done();
  ask("waits");
  CHECK(asked.started.back() == "waits");
}

TEST_CASE("turns: windows shrink with the number of streams, not below the least",
          "[target][turns]") {
  HeadTurns turns({1, 8 * kMiB, 16 * kMiB, 256 * kMiB});
  CHECK(turns.window() == 16 * kMiB);
  for (int i = 0; i < 10; ++i) turns.stream_begins();
  CHECK(turns.window() == 256 * kMiB / 20);
  for (int i = 0; i < 90; ++i) turns.stream_begins();
  CHECK(turns.window() == 8 * kMiB);
  for (int i = 0; i < 100; ++i) turns.stream_ends();
  CHECK(turns.window() == 16 * kMiB);
}

}  // namespace head_turns_test
