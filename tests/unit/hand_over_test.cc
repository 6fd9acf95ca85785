#include "common/cluster/place/hand_over.h"

#include <chrono>
#include <string>

#include <catch2/catch.hpp>

#include "common/cluster/place/ownership_json.h"
#include "common/cluster/state/coordinator.h"
#include "tests/simulation/history.h"
#include "tests/simulation/map_changes.h"
#include "tests/unit/ownership_fixture.h"

namespace tarn::cluster {
namespace hand_over_test {

using Verdict = HandOver::Verdict;
constexpr std::int64_t kLease = 5;

struct Fixture {
  Ownership before = map_of({"t1", "t2"});
  Ownership after = with_member(before, member("t3"));
  std::string moved = name_that_moves(before, after, "t1", "t3");
  std::string stays = name_that_moves(before, after, "t1", "t1");
};

TEST_CASE("hand-over: a new owner waits until its version has settled", "[ownership]") {
  const Fixture f;
  HandOver next("t3");
  CHECK(next.may_begin(f.moved, kLease) == Verdict::stale);
  next.learn(state_of(f.after, f.before.version, 10));
  CHECK(next.may_begin(f.moved, kLease) == Verdict::wait);
  CHECK(next.may_begin(f.stays, kLease) == Verdict::not_owner);
  next.learn(state_of(f.after, f.after.version, 11));
  CHECK(next.may_begin(f.moved, kLease) == Verdict::yes);
  next.learn(state_of(f.before, f.before.version, 3));  // old news
  CHECK(next.may_begin(f.moved, kLease) == Verdict::yes);
}

TEST_CASE("hand-over: names that stay are written all the time", "[ownership]") {
  const Fixture f;
  HandOver last("t1");
  last.learn(state_of(f.before, f.before.version, 9));
  CHECK(last.may_begin(f.moved, kLease) == Verdict::yes);
  last.learn(state_of(f.after, f.before.version, 10));
  CHECK(last.may_begin(f.stays, kLease) == Verdict::yes);
  CHECK(last.may_begin(f.moved, kLease) == Verdict::not_owner);
}

TEST_CASE("hand-over: a write under way is listed, and its new owner waits for the status",
          "[ownership]") {
  const Fixture f;
  HandOver last("t1");
  last.learn(state_of(f.before, f.before.version, 9));
  const auto write = last.begin(f.moved, kLease);
  const auto other = last.begin(f.stays, kLease);
  CHECK(last.status(true).moved == f.before.version);
  last.learn(state_of(f.after, f.before.version, 10));
  const TargetStatus status = last.status(true);
  CHECK(status.map_version == f.after.version);
  CHECK(status.under_way == std::vector<std::string>{f.moved});
  CHECK(status.moved == 0);

  HandOver next("t3");
  next.learn(state_of(f.after, f.after.version, 11, {status}));
  CHECK(next.may_begin(f.moved, kLease) == Verdict::wait);
  // The older write keeps the version under which it was ours; the other goes along.
  CHECK(last.map_version(write) == f.before.version);
  CHECK(last.map_version(other) == f.after.version);
  last.end(write);
  next.learn(state_of(f.after, f.after.version, 12, {last.status(true)}));
  CHECK(next.may_begin(f.moved, kLease) == Verdict::yes);
  CHECK(last.status(true).moved == f.after.version);
}

TEST_CASE("hand-over: away and back between two looks is away", "[ownership]") {
  const Ownership all = map_of({"t1", "t2"});
  const Ownership away = with_flags(all, "t1", kDown, 0).value();
  const Ownership back = with_flags(away, "t1", 0, kDown).value();
  const std::string name = name_that_moves(all, away, "t1", "t2");
  HandOver target("t1");
  target.learn(state_of(all, all.version, 9));
  const auto write = target.begin(name, kLease);
  target.learn(state_of(back, away.version, 20));
  CHECK(target.map_version(write) == all.version);
  CHECK(target.may_begin(name, kLease) == Verdict::wait);
  target.learn(state_of(back, back.version, 21));
  CHECK(target.may_begin(name, kLease) == Verdict::yes);
}

TEST_CASE("hand-over: a write ends under the lease under which it began", "[ownership]") {
  const Fixture f;
  HandOver target("t1");
  target.learn(state_of(f.before, f.before.version, 9));
  const auto write = target.begin(f.moved, kLease);
  CHECK_FALSE(target.commit(write, 0));
  CHECK_FALSE(target.commit(write, kLease + 1));
  CHECK(target.commit(write, kLease));
  CHECK(target.may_acknowledge(write, kLease));
  CHECK_FALSE(target.may_acknowledge(write, 0));
  CHECK_FALSE(target.may_acknowledge(write, kLease + 1));
  // A lease counts once what was known at its registration is known here.
  CHECK(target.may_begin(f.moved, 10) == Verdict::stale);
}

TEST_CASE("hand-over: a former owner does not answer for a name on its way to a drive",
          "[ownership]") {
  const Fixture f;
  HandOver last("t1");
  last.learn(state_of(f.before, f.before.version, 9));
  const auto hangs = last.begin(f.moved, kLease);
  const auto waits_for_body = last.begin(f.stays, kLease);
  CHECK(last.is_quiescent(f.moved));
  REQUIRE(last.commit(hangs, kLease));
  // Neither the end of its lease nor that of its ownership stops what the drive has begun.
  last.learn(state_of(f.after, f.after.version, 10));
  CHECK_FALSE(last.may_acknowledge(hangs, 0));
  CHECK_FALSE(last.is_quiescent(f.moved));
  // A write that has not begun to commit never will without its lease: it holds up nothing.
  CHECK_FALSE(last.commit(waits_for_body, 0));
  CHECK(last.is_quiescent(f.stays));
  last.end(hangs);
  CHECK(last.is_quiescent(f.moved));
}

TEST_CASE("hand-over: a copy on its way in is not nothing", "[ownership]") {
  const Fixture f;
  const Ownership moved_on = with_flags(f.after, "t3", kMaintenance, 0).value();
  HandOver next("t3");
  next.learn(state_of(f.after, f.after.version, 10));
  CHECK_FALSE(next.begin_copy(f.moved, 1, {"t1", f.before.version}));
  const auto copy = next.begin_copy(f.moved, 1, {"t1", f.after.version});
  REQUIRE(copy);
  CHECK(next.status(true).moved == f.after.version);
  next.learn(state_of(moved_on, moved_on.version, 11));
  CHECK(next.status(true).moved == 0);
  CHECK(next.status(true).under_way.empty());
  CHECK_FALSE(next.idle());
  CHECK_FALSE(next.is_quiescent(f.moved));
  next.end(*copy);
  CHECK(next.idle());
  CHECK(next.is_quiescent(f.moved));
  CHECK(next.status(true).moved == moved_on.version);
}

std::vector<TargetStatus> statuses(const std::vector<std::string>& ids, std::uint64_t version) {
  std::vector<TargetStatus> out;
  out.reserve(ids.size());
  for (const std::string& id : ids) out.push_back({id, version, {}, version});
  return out;
}

TEST_CASE("coordinator: settles when every live target has the version in force", "[ownership]") {
  const Fixture f;
  const auto absent = [](const std::string&) { return std::chrono::nanoseconds(0); };
  auto live = statuses({"t1", "t2", "t3"}, f.after.version);
  live[0].map_version = live[0].moved = f.before.version;
  CHECK_FALSE(next_step(*state_of(f.after, f.before.version, 10, live), absent, {}));
  live[0].map_version = f.after.version;
  const auto settle = next_step(*state_of(f.after, f.before.version, 11, live), absent, {});
  REQUIRE(settle);
  CHECK(settle->settle == f.after.version);
  CHECK_FALSE(settle->publish);
  // Not yet moved: t1 still holds names of t3.
  CHECK_FALSE(next_step(*state_of(f.after, f.after.version, 12, live), absent, {}));
  live[0].moved = f.after.version;
  const auto forget = next_step(*state_of(f.after, f.after.version, 13, live), absent, {});
  REQUIRE(forget);
  REQUIRE(forget->publish);
  CHECK(forget->publish->past.empty());
}

TEST_CASE("coordinator: down, out, back, fenced", "[ownership]") {
  using namespace std::chrono_literals;
  const Ownership map = map_of({"t1", "t2"});
  std::chrono::nanoseconds away = 0s;
  const auto absent = [&](const std::string&) { return away; };
  const auto step = [&](const Ownership& now, const std::vector<std::string>& live) {
    return next_step(*state_of(now, now.version, 10, statuses(live, now.version)), absent, {});
  };
  const auto down = step(map, {"t2"});
  REQUIRE(down);
  REQUIRE(down->publish);
  CHECK(down->absent == std::vector<std::string>{"t1"});
  CHECK(down->publish->find("t1")->flags == kDown);
  CHECK_FALSE(step(*down->publish, {"t2"}));
  away = 15min;
  const auto out = step(*down->publish, {"t2"});
  REQUIRE(out);
  CHECK(out->publish->find("t1")->flags == (kDown | kOut));
  const auto back = step(*out->publish, {"t1", "t2"});
  REQUIRE(back);
  CHECK(back->present == std::vector<std::string>{"t1"});
  CHECK(back->publish->find("t1")->flags == 0);
  away = 24h * 7;
  const auto fenced = step(*out->publish, {"t2"});
  REQUIRE(fenced);
  CHECK_FALSE(fenced->publish->find("t1"));
}

TEST_CASE("hand-over: what was on its way to a drive by an older map may be more than was given",
          "[ownership]") {
  const Ownership before = map_of({"t1"});
  HandOver target("t1");
  target.learn(state_of(before, before.version, kLease));
  const auto early = target.begin("ais/@#/data/x", kLease);
  const auto late = target.begin("ais/@#/data/y", kLease);
  REQUIRE(target.commit(early, kLease));
  CHECK(target.status(true).moved == before.version);
  const Ownership after = with_other_copies(before);
  target.learn(state_of(after, after.version, kLease + 1));
  REQUIRE(target.commit(late, kLease));  // it goes to the replicas of the new map
  CHECK(target.status(true).moved == 0);
  CHECK(target.status(true).under_way.empty());
  target.end(early);
  CHECK(target.status(true).moved == after.version);
}

TEST_CASE("coordinator: who has other drives than the map knows may have lost what it held",
          "[ownership]") {
  const auto never = [](const std::string&) { return std::chrono::nanoseconds(0); };
  const Ownership map = map_of({"t1", "t2"});
  const auto statuses = [&](std::uint64_t drive_set) {
    return std::vector<TargetStatus>{{"t1", map.version, {}, 0, 0},
                                     {"t2", map.version, {}, 0, drive_set}};
  };
  CHECK_FALSE(next_step(*state_of(map, map.version, 5, statuses(0)), never, {}));
  const auto step = next_step(*state_of(map, map.version, 5, statuses(9)), never, {});
  REQUIRE((step && step->publish));
  CHECK(step->present == std::vector<std::string>{"t2"});
  CHECK(step->publish->find("t2")->drive_set == 9);
  REQUIRE(step->publish->past.size() == 1);
  CHECK(step->publish->past.front().lost == std::vector<std::string>{"t2"});
  // Once, until they are others again; it is forgotten when all have moved.
  const Ownership next = *step->publish;
  std::vector<TargetStatus> now = {{"t1", next.version, {}, next.version, 0},
                                   {"t2", next.version, {}, 0, 9}};
  CHECK_FALSE(next_step(*state_of(next, next.version, 6, now), never, {}));
  now[1].moved = next.version;
  const auto last = next_step(*state_of(next, next.version, 7, now), never, {});
  REQUIRE((last && last->publish));
  CHECK(last->publish->past.empty());
}

TEST_CASE("coordinator: a target with another number of drives moves no name", "[ownership]") {
  const auto never = [](const std::string&) { return std::chrono::nanoseconds(0); };
  const Ownership map = map_of({"t1", "t2"});
  const std::vector<TargetStatus> statuses = {{"t1", map.version, {}, 0, 0, 1},
                                              {"t2", map.version, {}, 0, 0, 8}};
  const auto step = next_step(*state_of(map, map.version, 5, statuses), never, {});
  REQUIRE((step && step->publish));
  CHECK(step->publish->find("t2")->drives == 8);
  CHECK(step->publish->past.empty());
  CHECK(step->publish->current == map.current);
  const auto again = decode_ownership(encode(*step->publish));
  REQUIRE(again);
  CHECK(again->find("t2")->drives == 8);
  CHECK(again->current == map.current);
}

TEST_CASE("simulation: the checker takes registers and nothing else", "[ownership]") {
  using simulation::linearizable;
  using simulation::Operation;
  using Kind = Operation::Kind;
  const Operation put1{Kind::put, 1, 0, 10};
  const Operation put2{Kind::put, 2, 20, 30};
  CHECK(linearizable({put1, put2, {Kind::read, 2, 40, 50}}));
  CHECK(linearizable({put1, put2, {Kind::read, 1, 25, 50}}));
  CHECK_FALSE(linearizable({put1, put2, {Kind::read, 1, 40, 50}}));
  CHECK_FALSE(linearizable({put1, {Kind::read, 0, 40, 50}}));
  // An unknown outcome: any time later, or never, but not there and back.
  const Operation unknown{Kind::put, 3, 5, Operation::kNever};
  CHECK(linearizable({put1, unknown, {Kind::read, 1, 40, 50}, {Kind::read, 3, 60, 70}}));
  CHECK_FALSE(linearizable({put1, unknown, {Kind::read, 3, 40, 50}, {Kind::read, 1, 60, 70}}));
  // Of two creates one is refused.
  CHECK_FALSE(linearizable({{Kind::create, 1, 0, 10}, {Kind::create, 2, 5, 12}}));
  CHECK(linearizable({{Kind::create, 1, 0, 10}, {Kind::exists, 2, 5, 12}}));
}

}  // namespace hand_over_test
}  // namespace tarn::cluster
