#include "target/repair/repair_plan.h"

#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "common/api/copy_counts.h"
#include "common/api/slice_counts.h"
#include "target/coded/slice_judge.h"
#include "target/coded/slice_seen.h"
#include "target/node/bad_slices.h"
#include "target/node/drives_away.h"
#include "target/repair/coded_repair.h"

namespace repair_plan_test {

using namespace tarn;
using namespace tarn::target;
using namespace std::chrono_literals;

constexpr std::uint64_t kName = 0x1234567890abcdef;

cluster::NodeSet targets(int count) {
  cluster::NodeSet out;
  for (int i = 0; i < count; ++i)
    out.add("t" + std::to_string(i), 1000003U * static_cast<std::uint64_t>(i + 1), 1.0, 2);
  return out;
}

/// An object of 2 + 1 where a cluster of five would place it.
struct Object {
  cluster::NodeSet standing = targets(5);
  io::Coding coding;
  std::vector<SliceState> states{3, SliceState::good};
  std::set<std::string> down;
  SliceState full_copy = SliceState::missing;
  std::string self = "t0";

  Object() {
    coding.k = 2;
    coding.m = 1;
    for (const auto& holder : standing.replicas(kName, 3))
      coding.holders.push_back(standing.id(holder.node));
  }
  [[nodiscard]] Repair plan() const {
    return plan_repair(standing, kName, {coding, states, full_copy}, self,
                       [&](const std::string& id) { return !down.contains(id); });
  }
  [[nodiscard]] bool is_holder(const std::string& id) const {
    return std::find(coding.holders.begin(), coding.holders.end(), id) != coding.holders.end();
  }
};

TEST_CASE("repair plan: what is written counts before the next part is begun", "[target][repair]") {
  Repair repair;
  repair.good = 4;
  repair.anew = {{0, "t0", 0}, {1, "t1", 0}};
  repair.moves = {{2, "t2", 0}, {3, "t3", 0}};
  repair.full_copy = "t4";
  auto parts = parts_of(repair);
  REQUIRE(parts.size() == 4);
  CHECK(parts[0].anew.size() == 2);
  CHECK(parts[1].moves.front().index == 2);
  CHECK(parts[2].moves.front().index == 3);
  CHECK(parts[3].full_copy == "t4");
  std::size_t slices = 0;
  for (const Repair& part : parts) {
    CHECK(part.good == 4);  // so that anew slices are made out of slices
    slices += part.slices();
  }
  CHECK(slices == repair.slices());
  // The drop of a full copy comes after all others, or alone.
  repair.full_copy.clear();
  repair.drop_full_copy = true;
  parts = parts_of(repair);
  REQUIRE(parts.size() == 3);
  CHECK_FALSE(parts[0].drop_full_copy);
  CHECK(parts[2].drop_full_copy);
  repair.anew.clear();
  repair.moves.clear();
  parts = parts_of(repair);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].drop_full_copy);
  CHECK(parts[0].slices() == 0);
}

TEST_CASE("repair plan: an object that is whole needs nothing", "[target][repair]") {
  const Object object;
  CHECK(object.plan().empty());
  CHECK(object.plan().good == 3);
  CHECK_FALSE(object.plan().placed_worse);
}

TEST_CASE("repair plan: what is gone from a target that is there is made again in place",
          "[target][repair]") {
  Object object;
  object.states[1] = SliceState::missing;
  const Repair repair = object.plan();
  REQUIRE(repair.anew.size() == 1);
  CHECK(repair.moves.empty());
  CHECK(repair.anew[0].index == 1);
  CHECK(repair.anew[0].holder == object.coding.holders[1]);
  CHECK(repair.missing == 1);
}

TEST_CASE("repair plan: what a target that is out had is made again at another one",
          "[target][repair]") {
  Object object;
  const std::string gone = object.coding.holders[0];
  object.standing = {};
  for (int i = 0; i < 5; ++i) {
    const std::string id = "t" + std::to_string(i);
    if (id != gone) object.standing.add(id, 1000003U * static_cast<std::uint64_t>(i + 1), 1.0, 2);
  }
  object.states[0] = SliceState::missing;
  const Repair repair = object.plan();
  REQUIRE(repair.anew.size() == 1);
  CHECK_FALSE(object.is_holder(repair.anew[0].holder));
  CHECK(object.standing.contains(repair.anew[0].holder));
  // The same target, that leaves and can be read: its slice is copied.
  object.states[0] = SliceState::good;
  CHECK(object.plan().anew.empty());
  REQUIRE(object.plan().moves.size() == 1);
  CHECK(object.plan().moves[0].index == 0);
  // Neither while it is away and may be back.
  object.states[0] = SliceState::waiting;
  CHECK(object.plan().empty());
  CHECK(object.plan().waiting == 1);
}

TEST_CASE("repair plan: with fewer than k slices nothing is done", "[target][repair]") {
  Object object;
  object.states = {SliceState::missing, SliceState::waiting, SliceState::good};
  const Repair repair = object.plan();
  CHECK(repair.empty());
  CHECK(repair.good == 1);
  CHECK(repair.missing == 1);
}

TEST_CASE("repair plan: it is known why a slice cannot be made", "[target][repair]") {
  Object object;
  object.states = {SliceState::missing, SliceState::waiting, SliceState::good};
  CHECK_FALSE(object.plan().lost);  // the one that waits would make them enough
  object.states[1] = SliceState::missing;
  CHECK(object.plan().lost);
  object.full_copy = SliceState::waiting;
  CHECK_FALSE(object.plan().lost);
  object.states[1] = SliceState::good;
  CHECK(object.plan().unplaced == 0);
  object.down = {"t0", "t1", "t2", "t3", "t4"};
  CHECK(object.plan().empty());
  CHECK(object.plan().unplaced == 1);
}

TEST_CASE("repair plan: reasons name the targets that are waited for", "[target][repair]") {
  using Why = WaitReason::Why;
  io::ObjectRecord record;
  record.coding.emplace();
  record.coding->holders = {"t1", "t2", "t3", "t3"};
  CodedObject object{{}, record};
  object.states = {SliceState::waiting, SliceState::waiting, SliceState::good, SliceState::waiting};
  object.unheard = {"t1"};
  Repair repair;
  repair.waiting = 3;
  repair.unplaced = 1;
  const std::map<WaitReason, std::uint64_t> wanted{{{Why::waits_for_node, "t1"}, 1},
                                                   {{Why::waits_for_drive, "t2"}, 1},
                                                   {{Why::waits_for_drive, "t3"}, 1},
                                                   {{Why::no_room, ""}, 1}};
  CHECK(waits_of(object, repair).objects() == wanted);
  repair.lost = true;
  CHECK(waits_of(object, repair).objects() ==
        std::map<WaitReason, std::uint64_t>{{{Why::too_few_slices, ""}, 1}});
}

TEST_CASE("repair plan: the full copy follows the owner, who makes it", "[target][repair]") {
  Object object;
  const auto order = object.standing.replicas(kName, 4);
  const auto id = [&](std::size_t i) { return object.standing.id(order[i].node); };
  object.coding.layout = io::Coding::Layout::whole;
  object.coding.holders = {id(1), id(2), id(3)};
  object.coding.full_copy = object.self = id(0);
  object.full_copy = SliceState::good;
  CHECK(object.plan().empty());
  CHECK(object.plan().missing == 0);
  SECTION("gone from where it belongs") {
    object.full_copy = SliceState::missing;
    CHECK(object.plan().full_copy == id(0));
    CHECK(object.plan().missing == 1);
    CHECK(object.plan().slices() == 1);
    object.full_copy = SliceState::waiting;
    CHECK(object.plan().empty());
    CHECK(object.plan().waiting == 1);
  }
  SECTION("still with the owner of before, good or not") {
    for (const auto state : {SliceState::good, SliceState::waiting, SliceState::missing}) {
      object.coding.full_copy = "somebody";
      object.full_copy = state;
      CHECK(object.plan().full_copy == id(0));
    }
  }
  SECTION("who owns the name for as long as the owner is down does not make it") {
    object.self = id(1);
    object.full_copy = SliceState::waiting;
    CHECK(object.plan().empty());
  }
  SECTION("striped objects have none") {
    object.coding.layout = io::Coding::Layout::striped;
    object.coding.holders = {id(0), id(1), id(2)};
    object.coding.full_copy = "";
    object.full_copy = SliceState::missing;
    CHECK(object.plan().empty());
  }
  SECTION("one that was acknowledged before the slices goes when they are there") {
    object.coding.layout = io::Coding::Layout::striped;
    object.coding.holders = {"", "", ""};
    object.states = {3, SliceState::missing};
    CHECK(object.plan().anew.size() == 3);
    CHECK(object.plan().drop_full_copy);
    object.down = {id(0), id(1), id(2), id(3), "t0", "t1", "t2", "t3", "t4"};
    CHECK_FALSE(object.plan().drop_full_copy);
    object.down.clear();
    object.coding.holders = {id(0), id(1), id(2)};
    object.states = {3, SliceState::good};
    CHECK(object.plan().drop_full_copy);
    CHECK_FALSE(object.plan().empty());
    CHECK(object.plan().slices() == 0);
  }
  SECTION("with fewer than k slices it is what they are made of") {
    object.states = {SliceState::missing, SliceState::missing, SliceState::good};
    CHECK(object.plan().anew.size() == 2);
    object.full_copy = SliceState::missing;
    CHECK(object.plan().empty());
    object.full_copy = SliceState::good;
    object.coding.full_copy = "another target";
    CHECK(object.plan().anew.size() == 2);
    CHECK(object.plan().full_copy == id(0));
  }
}

TEST_CASE("repair plan: nobody that is down takes a slice", "[target][repair]") {
  Object object;
  object.states[2] = SliceState::missing;
  object.down = {object.coding.holders[2]};
  for (const auto& goal : object.plan().anew) CHECK_FALSE(object.down.contains(goal.holder));
}

TEST_CASE("repair plan: what is left is counted with the full copy, and without what waits",
          "[target][repair]") {
  Object object;
  CHECK(object.plan().left == 1);
  object.states[0] = SliceState::waiting;
  CHECK(object.plan().left == 0);
  object.full_copy = SliceState::good;
  CHECK(object.plan().left == 1);
  object.states = {3, SliceState::missing};
  CHECK(object.plan().left == 0);
  object.states = {3, SliceState::good};
  CHECK(object.plan().left == 2);
}

TEST_CASE("slice judge: a full copy is the object, as k slices are, and what waits may be",
          "[target][repair]") {
  LeftOfSet left;
  CHECK_FALSE(left.may_be_the_object(2));
  left.add(0, SliceState::good);
  left.add(0, SliceState::good);  // at another target
  left.add(1, SliceState::missing);
  left.add(io::kFullCopy, SliceState::missing);
  CHECK_FALSE(left.may_be_the_object(2));
  SECTION("another slice") { left.add(4, SliceState::good); }
  SECTION("a slice that may be back") { left.add(4, SliceState::waiting); }
  SECTION("the full copy") { left.add(io::kFullCopy, SliceState::good); }
  SECTION("a full copy that may be back") { left.add(io::kFullCopy, SliceState::waiting); }
  CHECK(left.may_be_the_object(2));
}

TEST_CASE("slice lists: questions and answers arrive as they were meant", "[target][slice]") {
  const SliceKey key{BucketId(7), std::string("a\xff/b"), 0xfedcba9876543210, 5};
  const std::vector<SliceKey> keys{key};
  CHECK(slice_keys_of(to_body(std::span(keys))).value() == keys);
  const std::vector<SliceState> states{SliceState::good, SliceState::waiting, SliceState::missing};
  CHECK(slice_states_of(to_body(std::span(states))).value() == states);
  const std::vector<SliceSeen> seen{
      {SliceState::good, ~0ULL}, {SliceState::waiting}, {SliceState::missing}};
  const std::string body = to_body(std::span(seen));
  CHECK(slices_seen_in(body).value() == seen);
  for (std::size_t cut = 0; cut < body.size(); ++cut)
    CHECK_FALSE(slices_seen_in(std::string_view(body).substr(0, cut)));
  const std::vector<HeldSlice> held{{key, {3, 2, 1}}};
  const auto got = held_slices_of(to_body(std::span(held))).value();
  REQUIRE(got.size() == 1);
  CHECK(got[0].key == key);
  CHECK(got[0].generation == Generation{3, 2, 1});
  const std::vector<SliceVerdict> verdicts{{SliceVerdict::Kind::keep},
                                           {SliceVerdict::Kind::wait},
                                           {SliceVerdict::Kind::drop, {4, 5, 6}}};
  const auto said = slice_verdicts_of(to_body(std::span(verdicts))).value();
  REQUIRE(said.size() == 3);
  CHECK(said[0].kind == SliceVerdict::Kind::keep);
  CHECK(said[1].kind == SliceVerdict::Kind::wait);
  CHECK(said[2].kind == SliceVerdict::Kind::drop);
  CHECK(said[2].up_to == Generation{4, 5, 6});
  for (const char* bad : {"", "x", "\x93\x01\x02\x03"})
    CHECK(slice_keys_of(bad).error().code == Errc::invalid_argument);
  const std::vector<SliceKey> many(kSlicesAtOnce + 1, key);
  CHECK(slice_keys_of(to_body(std::span(many))).error().code == Errc::invalid_argument);
}

TEST_CASE("drives away: one is expected back for a while", "[target][repair]") {
  DrivesAway away;
  CHECK_FALSE(away.any_expected(BootTime(1s)));
  away.learn({"/a"}, BootTime(1s));
  away.learn({"/a", "/b"}, BootTime(31s));
  CHECK(away.any_expected(BootTime(60s)));
  CHECK(away.any_expected(BootTime(90s)));
  CHECK(away.believed_lost(BootTime(60s)) == 0);
  const auto one = away.believed_lost(BootTime(61s));
  CHECK(one != 0);
  CHECK(away.believed_lost(BootTime(91s)) != one);
  CHECK_FALSE(away.any_expected(BootTime(91s)));
  away.learn({"/b"}, BootTime(92s));
  away.learn({"/a", "/b"}, BootTime(93s));
  CHECK(away.any_expected(BootTime(94s)));
}

TEST_CASE("bad slices: an owner is told now and then until another one is there",
          "[target][repair]") {
  BadSlices bad;
  const SliceKey key{BucketId(1), "a", 2, 3};
  CHECK_FALSE(bad.contains(key));
  bad.add(key);
  bad.add(key);
  CHECK(bad.contains(key));
  CHECK(bad.to_tell(BootTime(1s)).size() == 1);
  CHECK(bad.to_tell(BootTime(2s)).empty());
  CHECK(bad.to_tell(BootTime(6s)).size() == 1);
  bad.erase(key);
  CHECK_FALSE(bad.contains(key));
}

TEST_CASE("slice counts: what owners say is put together", "[api][repair]") {
  api::SliceCounts one{3, {{"a\xff", {1, 0, false}}}, 1, 1};
  CHECK(api::slice_counts_from(encode(one)).value() == one);
  CHECK(api::slice_counts_from("no").error().code == Errc::corrupt);
  const api::SliceCounts none;
  CHECK(api::slice_counts_from(encode(none)).value() == none);
  one.add(none);
  CHECK(one.survives_drives == 1U);
  one.add({2, {{"b", {0, 0, true}}}, 0, 0});
  CHECK(one.objects == 5);
  CHECK(one.incomplete.size() == 2);
  CHECK(one.survives_nodes == 0U);
  api::CopyCounts counts;
  counts.add_short(2, 1, false, 1);
  counts.add_short(2, 0, false, 20);
  CHECK(counts.survives() == 1U);  // as far as copies go
  counts.add_short(2, 0, true, 300);
  CHECK(counts.reduced == 2);
  CHECK(counts.at_risk == 1);
  CHECK(counts.lost == 1);
  CHECK(counts.reduced_bytes == 21);
  CHECK(counts.at_risk_bytes == 20);
  CHECK(counts.lost_bytes == 300);
  CHECK(counts.survives() == 0U);
}

}  // namespace repair_plan_test
