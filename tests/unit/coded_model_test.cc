// Coded objects (docs/decisions/019): the schedules of its table of attacks, and random ones. With
// a rule left out the model must find what the rule is for.
//
// TARN_TEST_SEED: the first seed of the random schedules; TARN_TEST_SCHEDULES: how many. A failure
// names its seed and shows what happened.

#include "tests/unit/coded_model.h"

#include <array>
#include <cstdlib>
#include <random>
#include <string>

#include <catch2/catch.hpp>

namespace tarn::coded_model {
namespace coded_model_test {

constexpr std::uint64_t kSchedules = 6000;
constexpr std::uint64_t kSchedulesToNotice = 3000;
constexpr int kSteps = 150;
constexpr std::array<Shape, 5> kShapes{Shape{2, 1, 4}, Shape{2, 2, 5}, Shape{2, 1, 3},
                                       Shape{2, 2, 6}, Shape{1, 2, 5}};

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::uint64_t first_seed() { return number_of("TARN_TEST_SEED", std::random_device{}()); }

/// Twice: some time of trouble, then rest.
std::string run_schedule(const Rules& rules, std::uint64_t seed, std::string* trace = nullptr) {
  World world(kShapes[seed % kShapes.size()], rules, seed);
  if (trace != nullptr) world.keep_trace();
  for (int times = 0; times < 2 && world.wrong().empty(); ++times) {
    for (int step = 0; step < kSteps && world.wrong().empty(); ++step) world.step();
    if (world.wrong().empty()) world.rest();
  }
  if (trace != nullptr) *trace = world.trace();
  return world.wrong();
}

/// True if one of the random schedules goes wrong.
bool notices(const Rules& rules) {
  const std::uint64_t seed = first_seed();
  for (std::uint64_t i = 0; i < kSchedulesToNotice; ++i)
    if (!run_schedule(rules, seed + i).empty()) return true;
  return false;
}

TEST_CASE("coded model: random schedules", "[coded]") {
  const std::uint64_t seed = first_seed();
  const std::uint64_t count = number_of("TARN_TEST_SCHEDULES", kSchedules);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (run_schedule({}, seed + i).empty()) continue;
    std::string trace;
    const std::string wrong = run_schedule({}, seed + i, &trace);
    FAIL("seed " << seed + i << ": " << wrong << "\n" << trace);
  }
}

TEST_CASE("coded model: random schedules notice a missing rule", "[coded]") {
  Rules rules;
  SECTION("no bump") { rules.bump = false; }
  SECTION("a drop that does not compare a") { rules.compare_a = false; }
  SECTION("the generation of the write in place of a") { rules.raise_a = false; }
  SECTION("the record before the slices") { rules.seal_first = false; }
  SECTION("former slices dropped before the record is complete") { rules.drop_last = false; }
  SECTION("who is no replica keeps its pending record") { rules.overtaken = false; }
  REQUIRE(notices(rules));
}

// --- by hand ---

constexpr int kNo = kNobody;

Holders on(int a, int b, int c, int d = kNo, int e = kNo) { return {a, b, c, d, e}; }

/// 2+1 on 4 targets: records lie on two.
World small(const Rules& rules = {}) { return {Shape{2, 1, 4}, rules, 1}; }
/// 2+2 on 5: records lie on three.
World large(const Rules& rules = {}) { return {Shape{2, 2, 5}, rules, 1}; }

/// An acknowledged object, set 1, of which all know that it is complete.
void fill(World& world, const Holders& holders) {
  world.run(world.put(0, Kind::coded, holders));
  world.deliver();
}

void expect_rest(World& world) {
  world.rest();
  CHECK(world.wrong() == "");
}

/// Down at once, for all others too.
void kill(World& world, int target) {
  world.crash(target);
  world.fence(target);
}

/// Resolves what gave up at the owner: at the replica that has it, then at the owner.
void resolve_all(World& world, int replica, int owner) {
  world.run(world.settle(replica));
  world.deliver(owner);
  world.run(world.running(Task::settle, owner));
  world.run(world.running(Task::forward, owner));
}

TEST_CASE("coded model: 1 to 4, an owner dies before its record", "[coded]") {
  World world = small();
  fill(world, on(0, 1, 2));
  const Gen old = world.record(0).born;
  const int put = world.put(0, Kind::coded, on(1, 2, 3));
  SECTION("1: the body still comes") {
    world.run(put, Phase::lock);
    kill(world, 0);
  }
  SECTION("2: some are sealed") {
    world.run(put, Phase::sealed);
    world.run_calls(put, bit(1));
    kill(world, 0);
    CHECK(world.holds(1, 2, 0));
  }
  SECTION("3: all are sealed") {
    world.run(put, Phase::give);
    kill(world, 0);
    CHECK(world.holds(3, 2, 2));
  }
  SECTION("4: so is the bump") {
    world.run(put, Phase::give);
    kill(world, 0);
    const Gen before = world.record(1).gen;
    const int bump = world.begin_ask(3, 2);
    world.run(bump, Phase::given);
    world.run_calls(bump, bit(2));
    CHECK(world.record(2).gen > before);
    CHECK(world.record(2).mark == 1);
    CHECK(world.holds(3, 2, 2));
    kill(world, 1);
  }
  world.read(1);
  expect_rest(world);
  CHECK(world.record(0).born == old);
  CHECK_FALSE(world.holds(1, 2, 0));
}

TEST_CASE("coded model: 5, one record replica has the new version", "[coded]") {
  World world = large();
  fill(world, on(0, 1, 2, 3));
  const int put = world.put(0, Kind::coded, on(1, 2, 3, 4));
  world.run(put, Phase::given);
  world.run_calls(put, bit(2));
  const Gen born = world.record(2).born;
  kill(world, 0);
  world.read(1);
  world.read(2);
  CHECK(world.record(2).mark == 0);
  resolve_all(world, 2, 1);
  CHECK(world.record(1).born == born);
  CHECK(world.record(1).gen > born);
  CHECK(world.record(1).mark == kNobody);
  expect_rest(world);
  CHECK(world.record(0).born == born);
}

/// 6: so it dies, too, and returns when the slices of its version have been asked about.
std::string sixth(const Rules& rules) {
  World world = large(rules);
  fill(world, on(0, 1, 2, 3));
  const int put = world.put(0, Kind::coded, on(1, 2, 3, 4));
  world.run(put, Phase::given);
  world.run_calls(put, bit(2));
  kill(world, 0);
  kill(world, 2);
  world.ask(3, 2);
  world.start(2);
  world.rest();
  return world.wrong();
}

TEST_CASE("coded model: 6, the slices of a version that only a dead replica knows", "[coded]") {
  CHECK(sixth({}) == "");
  Rules rules;
  rules.bump = false;
  CHECK(sixth(rules) != "");
}

TEST_CASE("coded model: 7, the owner dies before it answers", "[coded]") {
  World world = small();
  fill(world, on(0, 1, 2));
  const int put = world.put(0, Kind::coded, on(1, 2, 3));
  world.run(put, Phase::after);
  const Gen born = world.record(0).born;
  kill(world, 0);
  world.ask(2, 1);  // by who has it pending: no word, and nothing is bumped
  CHECK(world.holds(2, 2, 1));
  CHECK(world.record(1).born == born);
  expect_rest(world);
  CHECK(world.record(0).born == born);
}

/// 8: R2 is complete. R3, which moves a slice, is at y; M, made from R2, at x.
std::string eighth(const Rules& rules) {
  World world = large(rules);
  fill(world, on(0, 1, 2, 4));
  const int third = world.repair(0, on(kNo, kNo, kNo, 3));
  world.run(third, Phase::given);
  world.run_calls(third, bit(2));
  kill(world, 0);
  const int made = world.patch(1);
  world.run(made, Phase::given);
  world.run_calls(made, bit(3));
  kill(world, 1);
  kill(world, 3);
  world.run(world.settle(2));
  world.run(world.running(Task::forward, 2));
  world.ask(4, 3);
  world.start(3);
  world.rest();
  return world.wrong();
}

TEST_CASE("coded model: 8, two incomplete records roll forward", "[coded]") {
  CHECK(eighth({}) == "");
  Rules rules;
  rules.forward_by_owner = false;
  CHECK(eighth(rules) != "");
}

TEST_CASE("coded model: 9 and 10, a replica dies around its answer", "[coded]") {
  World world = large();
  fill(world, on(0, 1, 2, 3));
  const int put = world.put(0, Kind::coded, on(1, 2, 3, 4));
  world.run(put, Phase::sealed);
  world.run_calls(put, ~Mask{0}, ~bit(4));
  CHECK(world.holds(4, 2, 3));
  world.run(put);
  world.crash(4);
  world.start(4);
  world.deliver();
  CHECK_FALSE(world.record(0).names(2, 3, 4));
  const Gen before = world.record(0).gen;
  world.ask(4, 3);
  CHECK_FALSE(world.holds(4, 2, 3));
  CHECK(world.record(0).gen == before);
  CHECK(world.holds(3, 2, 2));
  expect_rest(world);
}

TEST_CASE("coded model: 12 and 13, an owner pauses", "[coded]") {
  World world = small();
  fill(world, on(0, 1, 2));
  const int put = world.put(0, Kind::coded, on(1, 2, 3));
  SECTION("12: after it has sealed") {
    world.run(put, Phase::give);
    world.fence(0);
  }
  SECTION("20: while it gives") {
    world.run(put, Phase::given);
    world.delay_calls(put);
    world.fence(0);
  }
  SECTION("13: before it drops") {
    world.run(put);
    world.deliver(1);
    world.fence(0);
    world.run(world.repair(1, on(2, kNo, kNo)));
    world.run(world.repair(1, on(1, kNo, kNo)));
  }
  world.run(world.put(1, Kind::coded, on(2, 3, 1)));
  const Gen born = world.record(1).born;
  world.run(put);
  world.deliver();
  world.read(1);
  world.read(2);
  expect_rest(world);
  CHECK(world.record(0).born == born);
}

/// 14: a verdict is on its way while repair names the slice again.
std::string fourteenth(const Rules& rules) {
  World world = small(rules);
  fill(world, on(0, 1, 2));
  world.run(world.repair(0, on(kNo, kNo, 3)));  // its word to t2 is late
  world.run(world.repair(0, on(kNo, kNo, 2)));
  world.deliver();
  if (world.wrong().empty()) world.rest();
  return world.wrong();
}

TEST_CASE("coded model: 14, a slice that is named again", "[coded]") {
  CHECK(fourteenth({}) == "");
  Rules rules;
  SECTION("a drop that does not compare a") { rules.compare_a = false; }
  SECTION("the generation of the write in place of a") { rules.raise_a = false; }
  CHECK(fourteenth(rules) != "");
}

/// 15: a repair has sealed, and its record is at one replica, which the next owner does not ask.
std::string fifteenth(const Rules& rules) {
  World world = large(rules);
  fill(world, on(0, 1, 2, 3));
  const int repair = world.repair(0, on(kNo, kNo, kNo, 4));
  world.run(repair, Phase::given);
  world.run_calls(repair, bit(2));
  kill(world, 0);
  world.ask(4, 3);
  world.rest();
  return world.wrong();
}

TEST_CASE("coded model: 15, a repair that nobody finished", "[coded]") {
  CHECK(fifteenth({}) == "");
  Rules rules;
  SECTION("the generation of the write in place of a") { rules.raise_a = false; }
  SECTION("no bump") { rules.bump = false; }
  CHECK(fifteenth(rules) != "");
}

TEST_CASE("coded model: 16 to 18, two owners rebuild a slice", "[coded]") {
  World world = small();
  fill(world, on(0, 1, 2));
  SECTION("16: at two replicas") {
    const int repair = world.repair(0, on(kNo, kNo, 3));
    world.run(repair, Phase::give);
    world.fence(0);
    world.run(world.repair(1, on(kNo, kNo, 1)));
    world.run(repair);
  }
  SECTION("17: at the same") {
    const int repair = world.repair(0, on(kNo, kNo, 3));
    world.run(repair, Phase::sealed);
    world.delay_calls(repair);
    world.fence(0);
    world.run(world.repair(1, on(kNo, kNo, 3)));
    world.deliver(3);
    CHECK(world.holds(3, 1, 2));
    CHECK(world.record(1).names(1, 2, 3));
  }
  SECTION("18: in place, and moved meanwhile") {
    world.take_slice(2, 2);
    const int repair = world.repair(0, on(kNo, kNo, 2));
    world.run(repair, Phase::remake);
    world.delay_calls(repair);
    world.fence(0);
    const int move = world.repair(1, on(kNo, kNo, 3));
    world.run(move, Phase::after);
    world.deliver(2);
    world.run(move);
    world.lose_messages();
    const Gen before = world.record(1).gen;
    CHECK(world.holds(2, 1, 2));
    world.ask(2, 2);
    CHECK_FALSE(world.holds(2, 1, 2));
    CHECK(world.record(1).gen == before);
  }
  expect_rest(world);
}

TEST_CASE("coded model: 19, two overwrites at one owner", "[coded]") {
  World world = small();
  fill(world, on(0, 1, 2));
  const int one = world.put(0, Kind::coded, on(1, 2, 3));
  const int two = world.put(0, Kind::coded, on(3, 2, 1));
  world.run(one, Phase::sealed);
  world.run(two, Phase::lock);
  world.run(one);
  world.run(two);
  world.deliver();
  CHECK(world.record(0).set == 3);
  CHECK_FALSE(world.holds(2, 2, 1));
  expect_rest(world);
}

TEST_CASE("coded model: 21 to 23, a name changes while a slice is rebuilt", "[coded]") {
  World world = small();
  fill(world, on(0, 1, 2));
  const int repair = world.repair(0, on(kNo, kNo, 3));
  SECTION("21: it is deleted") {
    world.run(repair, Phase::lock);
    world.run(world.put(0, Kind::tombstone, {}));
    world.run(repair);
    expect_rest(world);
    CHECK(world.record(0).kind == Kind::tombstone);
  }
  SECTION("21: it is deleted by the next owner, after a seal") {
    world.run(repair, Phase::give);
    kill(world, 0);
    world.run(world.put(1, Kind::tombstone, {}));
    expect_rest(world);
    CHECK_FALSE(world.holds(3, 1, 2));
  }
  SECTION("22: it is patched") {
    world.run(repair, Phase::lock);
    world.run(world.patch(0));
    const Gen born = world.record(0).born;
    world.run(repair);
    CHECK(world.record(0).names(1, 2, 3));
    CHECK(world.record(0).born == born);
    expect_rest(world);
  }
  SECTION("23: it is patched by the next owner") {
    world.run(repair, Phase::give);
    world.fence(0);
    world.run(world.patch(1));
    const Gen born = world.record(1).born;
    world.run(repair);
    world.read(1);
    expect_rest(world);
    CHECK(world.record(0).born == born);
  }
}

TEST_CASE("coded model: 46, a pending record, and its writer has gone on", "[coded]") {
  World world = small();
  fill(world, on(0, 1, 2));
  const int put = world.put(0, Kind::coded, on(1, 2, 3));
  world.run(put, Phase::given);
  world.run_calls(put, bit(1), 0);
  world.give_up(put);
  kill(world, 1);
  world.run(world.put(0, Kind::coded, on(3, 2, 0)));
  const Gen born = world.record(0).born;
  world.start(1);
  CHECK(world.record(1).mark == 0);
  world.run(world.settle(1));
  CHECK(world.record(1).mark == 0);
  world.deliver(1);
  CHECK(world.record(1).born == born);
  world.read(1);
  expect_rest(world);
  CHECK(world.record(1).born == born);
}

TEST_CASE("coded model: 47 and 48, writes and marks of others", "[coded]") {
  World world = small();
  fill(world, on(0, 1, 2));
  SECTION("47: a PUT that looks at nothing, over a pending repair") {
    const int repair = world.repair(0, on(kNo, kNo, 3));
    world.run(repair, Phase::publish);
    kill(world, 0);
    CHECK(world.record(1).mark == 0);
    world.run(world.put(1, Kind::coded, on(1, 2, 3)));
    world.deliver();
    world.ask(2, 2);
    world.ask(3, 2);
    CHECK_FALSE(world.holds(2, 1, 2));
    CHECK_FALSE(world.holds(3, 1, 2));
    CHECK(world.holds(3, 2, 2));
  }
  SECTION("48: a plain object that is pending") {
    const int put = world.put(0, Kind::plain, {});
    world.run(put, Phase::publish);
    kill(world, 0);
    const Gen gen = world.record(1).gen;
    world.run(world.settle(1));
    world.run(world.running(Task::forward, 1));
    CHECK(world.record(1).gen > gen);
    CHECK(world.record(1).kind == Kind::plain);
  }
  expect_rest(world);
}

/// 53: an owner has picked its generation, loses the name, gets it back, and goes on. Meanwhile
/// what the owner in between has brought forward lies at one replica.
std::string fifty_third(const Rules& rules) {
  World world = large(rules);
  fill(world, on(0, 1, 2, 3));
  const int patch = world.patch(0);
  world.run(patch, Phase::given);
  world.run_calls(patch, bit(2));
  world.give_up(patch);
  const int put = world.put(0, Kind::coded, on(1, 2, 3, 4));
  world.run(put, Phase::give);
  world.fence(0);
  world.run(world.settle(2));
  world.deliver(1);
  world.run(world.running(Task::settle, 1));
  const int forward = world.running(Task::forward, 1);
  world.run(forward, Phase::given);
  world.run_calls(forward, bit(3));
  world.give_up(forward);
  world.start(0);
  world.run(put);
  world.deliver();
  if (world.wrong().empty()) world.rest();
  return world.wrong();
}

TEST_CASE("coded model: 53, a commit outlives the ownership of its name", "[coded]") {
  CHECK(fifty_third({}) == "");
  Rules rules;
  rules.one_tenure = false;
  CHECK(fifty_third(rules) != "");
}

/// 54: the owner comes back with nothing, and who has the last version has it pending.
std::string fifty_fourth(const Rules& rules) {
  World world = small(rules);
  fill(world, on(1, 2, 3));
  const int put = world.put(0, Kind::coded, on(1, 2, 3));
  world.run(put, Phase::publish);
  world.crash(0);
  world.wipe(0);
  world.fence(0);
  world.start(0);
  world.rest();
  return world.wrong();
}

TEST_CASE("coded model: 54, an owner asks a past replica that waits for it", "[coded]") {
  CHECK(fifty_fourth({}) == "");
  Rules rules;
  rules.forward_sees_marks = false;
  CHECK(fifty_fourth(rules) != "");
}

/// 55: a pending record is at a target that is no replica any more.
std::string fifty_fifth(const Rules& rules) {
  World world = small(rules);
  fill(world, on(0, 1, 2));
  kill(world, 1);
  world.run(world.put(0, Kind::coded, on(0, 2, 3)));
  world.lose_messages();
  world.start(1);
  world.run(world.put(0, Kind::coded, on(1, 2, 3)));
  world.rest();
  return world.wrong();
}

TEST_CASE("coded model: 55, a pending record where none belongs", "[coded]") {
  CHECK(fifty_fifth({}) == "");
  Rules rules;
  rules.overtaken = false;
  CHECK(fifty_fifth(rules) != "");
}

/// 56: the owner has complete what another was given pending, and the giver has nothing any more.
std::string fifty_sixth(const Rules& rules) {
  World world = small(rules);
  fill(world, on(0, 1, 2));
  kill(world, 1);
  world.run(world.put(0, Kind::coded, on(0, 2, 3)));
  world.lose_messages();
  kill(world, 0);
  world.start(1);
  world.run(world.settle(2));
  world.start(0);
  world.rest();
  return world.wrong();
}

TEST_CASE("coded model: 56, the owner has as new a version, complete", "[coded]") {
  CHECK(fifty_sixth({}) == "");
  Rules rules;
  rules.owner_has_it = false;
  CHECK(fifty_sixth(rules) != "");
}

}  // namespace coded_model_test
}  // namespace tarn::coded_model
