#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/cluster/place/ownership_json.h"
#include "common/cluster/place/rebalance_plan.h"
#include "common/cluster/place/slice_plan.h"
#include "common/cluster/place/visible_names.h"
#include "tests/unit/ownership_fixture.h"
#include "tests/unit/seed.h"

// Placement over zones (docs/decisions/024).

namespace tarn::cluster {
namespace zones_test {

std::uint64_t zones_digest_of(int i) {
  return placement_digest("ais/@#/zoned/" + std::to_string(i));
}

struct Machine {
  std::string id;
  double weight = 1;
  std::uint32_t drives = 1;
  std::string zone;
};

NodeSet set_from(const std::vector<Machine>& machines, bool with_zones = true) {
  NodeSet out;
  for (const Machine& each : machines)
    out.add(each.id, placement_digest(each.id), each.weight, each.drives,
            with_zones ? each.zone : "");
  return out;
}

/// So many targets in each zone, "a" and so on, each with `drives` drives.
NodeSet zoned(const std::vector<int>& targets, std::uint32_t drives = 4) {
  std::vector<Machine> machines;
  for (std::size_t zone = 0; zone < targets.size(); ++zone)
    for (int i = 0; i < targets[zone]; ++i) {
      const std::string name(1, static_cast<char>('a' + zone));
      machines.push_back({name + std::to_string(i), 1, drives, name});
    }
  return set_from(machines);
}

std::vector<Machine> any_machines(std::mt19937_64& random, std::size_t zones) {
  std::vector<Machine> out;
  const std::size_t count = random() % 14 + 1;
  const bool even = random() % 2 == 0;
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    out.push_back({"t" + std::to_string(random()), even ? 1 : static_cast<double>(random() % 4 + 1),
                   static_cast<std::uint32_t>(random() % 4 + 1),
                   "z" + std::to_string(random() % zones)});
  return out;
}

std::vector<std::string> replicas_of(const NodeSet& set, std::uint64_t digest, std::size_t count) {
  std::vector<std::string> out;
  for (const Replica& replica : set.replicas(digest, count)) out.push_back(set.id(replica.node));
  return out;
}

std::map<std::string, int> in_zones(const NodeSet& set, const std::vector<std::string>& ids) {
  std::map<std::string, int> out;
  for (std::size_t i = 0; i < set.size(); ++i)
    out[set.zone(i)] += static_cast<int>(std::count(ids.begin(), ids.end(), set.id(i)));
  return out;
}

std::vector<std::string> zones_ids_of(const std::vector<SlicePlace>& places) {
  std::vector<std::string> out;
  out.reserve(places.size());
  for (const SlicePlace& place : places) out.push_back(place.id);
  return out;
}

SliceNeeds needs_of(std::uint64_t digest, std::size_t slices,
                    std::function<bool(const std::string&)> takes) {
  return {.name_digest = digest,
          .slices = slices,
          .after_owner = false,
          .holders = {},
          .good = 0,
          .takes = std::move(takes)};
}

bool zones_all_take(const std::string&) { return true; }

Member in_zone(const std::string& id, const std::string& zone) {
  Member out = member(id);
  out.zone = zone;
  return out;
}

TEST_CASE("zones: one zone for all places as none does", "[zones]") {
  const std::uint64_t seed = test_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const auto machines = any_machines(random, 1);
    const NodeSet with = set_from(machines);
    const NodeSet without = set_from(machines, false);
    const auto digest = random();
    for (std::size_t count = 0; count < 20; ++count)
      REQUIRE(with.replicas(digest, count) == without.replicas(digest, count));
    REQUIRE(zones_ids_of(plan_slices(with, needs_of(digest, 6, zones_all_take))) ==
            zones_ids_of(plan_slices(without, needs_of(digest, 6, zones_all_take))));
  }
}

TEST_CASE("zones: copies are spread evenly, and the owner is the one that it was", "[zones]") {
  const std::uint64_t seed = test_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 1'000; ++round) {
    const auto machines = any_machines(random, random() % 5 + 1);
    const NodeSet set = set_from(machines);
    const auto digest = random();
    REQUIRE(set.owner(digest) == set_from(machines, false).owner(digest));
    const std::size_t count = random() % set.size() + 1;
    const auto replicas = replicas_of(set, digest, count);
    REQUIRE(replicas.size() == count);
    REQUIRE(replicas.front() == set.owner(digest));
    REQUIRE(std::set<std::string>(replicas.begin(), replicas.end()).size() == count);
    std::map<std::string, int> targets;
    for (const Machine& each : machines) ++targets[each.zone];
    const auto has = in_zones(set, replicas);
    for (const auto& [zone, here] : has)
      for (const auto& [other, its] : has)  // one with room has at most one less
        if (here < targets[zone]) REQUIRE(its <= here + 1);
  }
}

TEST_CASE("zones: who joins or leaves changes one replica of a name at most", "[zones]") {
  const std::uint64_t seed = test_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2'000; ++round) {
    const std::size_t zones = random() % 5 + 1;
    auto machines = any_machines(random, zones);
    for (Machine& each : machines) each.weight = 1;
    const NodeSet before = set_from(machines);
    machines.push_back({"joins", 1, 1, "z" + std::to_string(random() % (zones + 1))});
    const NodeSet after = set_from(machines);
    const auto digest = random();
    const std::size_t count = random() % before.size() + 1;
    auto old = replicas_of(before, digest, count);
    auto now = replicas_of(after, digest, count);
    std::sort(old.begin(), old.end());
    std::sort(now.begin(), now.end());
    std::vector<std::string> gained;
    std::set_difference(now.begin(), now.end(), old.begin(), old.end(), std::back_inserter(gained));
    REQUIRE(gained.size() <= 1);
    if (!gained.empty()) REQUIRE(gained.front() == "joins");
  }
}

TEST_CASE("zones: when all targets have a copy, their other drives follow zone by zone",
          "[zones]") {
  const NodeSet set = zoned({2, 1, 1});
  for (int i = 0; i < 100; ++i) {
    const auto replicas = replicas_of(set, zones_digest_of(i), 6);
    CHECK(in_zones(set, replicas) == std::map<std::string, int>{{"a", 2}, {"b", 2}, {"c", 2}});
  }
  CHECK(set.replicas(zones_digest_of(1), 40).size() == 16);
}

TEST_CASE("zones: a cluster that is given zones target by target moves its data once", "[zones]") {
  Ownership map = map_of({"t1", "t2", "t3", "t4"});
  const NodeSet plain = map.current;
  const std::map<std::string, std::string> zones{
      {"t1", "a"}, {"t2", "a"}, {"t3", "b"}, {"t4", "b"}};
  for (const auto& [id, zone] : zones) {
    CHECK(map.current == plain);
    CHECK(map.past.empty());
    map = with_member(map, in_zone(id, zone));
    CHECK(zones_in_use(map.members) == (id == "t4"));
  }
  REQUIRE(map.past.size() == 1);
  CHECK(map.past.front().nodes == plain);
  CHECK_FALSE(map.current == plain);
  int moved = 0;
  for (int i = 0; i < 1'000; ++i) {
    const auto old = replicas_of(plain, zones_digest_of(i), 2);
    const auto now = replicas_of(map.current, zones_digest_of(i), 2);
    CHECK(in_zones(map.current, now) == std::map<std::string, int>{{"a", 1}, {"b", 1}});
    CHECK(now.front() == old.front());
    // The replica that leaves gives the name to the new one, and to no other.
    if (now == old) continue;
    ++moved;
    const auto plan = plan_name(map, old.back(), zones_digest_of(i), 2);
    CHECK_FALSE(plan.keep);
    CHECK(plan.send == std::vector<std::string>{now.back()});
    CHECK(sure_replicas(map.past.front(), zones_digest_of(i), 2) == old);
  }
  CHECK(moved >
        250);  // of two targets that are chosen at random, one in three pairs is of one zone
  CHECK(moved < 420);
  // A target that is down or out takes no zones away; one that leaves for good does not prevent
  // them.
  CHECK(zones_in_use(with_flags(map, "t1", kDown | kOut, 0)->members));
  const Ownership plain_joins = with_member(map, member("t5"));
  CHECK_FALSE(zones_in_use(plain_joins.members));
  CHECK(zones_in_use(with_flags(plain_joins, "t5", kDecommission, 0)->members));
  CHECK(zones_in_use(with_flags(plain_joins, "t5", kDecommission, 0)->members));
  CHECK_FALSE(zones_in_use(with_flags(plain_joins, "t5", kDown | kOut, 0)->members));
}

TEST_CASE("zones: the map is the same after encoding, with the zones of past epochs", "[zones]") {
  Ownership map = map_of({"t1", "t2", "t3"});
  for (const auto& [id, zone] : {std::pair("t1", "a"), {"t2", "b"}, {"t3", "c"}})
    map = with_member(map, in_zone(id, zone));
  map = with_member(map, in_zone("t3", "rack_7.left-2"));
  map = with_flags(map, "t2", kDown, 0).value();
  map = with_member(map, member("t4"));
  map = without_member(map, "t1").value();
  REQUIRE(map.past.size() == 5);
  const auto again = decode_ownership(encode(map));
  REQUIRE(again);
  CHECK(again->current == map.current);
  CHECK(again->past == map.past);
  CHECK(again->find("t3")->zone == "rack_7.left-2");
  CHECK(encode(*again) == encode(map));
  CHECK(encode(map_of({"t1"})).find("zone") == std::string::npos);
}

TEST_CASE("zones: slices of 4+2 lie two in each of three zones", "[zones]") {
  const NodeSet set = zoned({2, 2, 2}, 1);
  const std::map<std::string, int> even{{"a", 2}, {"b", 2}, {"c", 2}};
  for (int i = 0; i < 200; ++i) {
    const auto needs = needs_of(zones_digest_of(i), 6, zones_all_take);
    CHECK(in_zones(set, zones_ids_of(plan_slices(set, needs))) == even);
  }
  const NodeSet larger = zoned({5, 3, 4});
  for (int i = 0; i < 200; ++i) {
    auto needs = needs_of(zones_digest_of(i), 6, zones_all_take);
    CHECK(in_zones(larger, zones_ids_of(plan_slices(larger, needs))) == even);
    needs.after_owner = true;
    auto places = zones_ids_of(plan_slices(larger, needs));
    CHECK(std::count(places.begin(), places.end(), larger.owner(zones_digest_of(i))) == 0);
    // Seven slices, the full copy among them: three in one of the zones.
    places.push_back(larger.owner(zones_digest_of(i)));
    int most = 0;
    for (const auto& [zone, count] : in_zones(larger, places)) most = std::max(most, count);
    CHECK(most == 3);
  }
}

TEST_CASE("zones: where a target takes nothing, the zone with the fewest slices is next",
          "[zones]") {
  const NodeSet set = zoned({2, 2, 3});
  for (int i = 0; i < 200; ++i) {
    const auto needs =
        needs_of(zones_digest_of(i), 6, [](const std::string& id) { return id != "a0"; });
    const auto places = plan_slices(set, needs);
    const auto ids = zones_ids_of(places);
    CHECK(in_zones(set, ids) == std::map<std::string, int>{{"a", 2}, {"b", 2}, {"c", 2}});
    CHECK(std::count(ids.begin(), ids.end(), "a1") == 2);
    CHECK(stands_worse(set, needs, places));  // two slices share a target
  }
  // No target of a whole zone takes any: each of the others gets one more.
  const auto no_a = needs_of(zones_digest_of(1), 6, [](auto& id) { return id.front() != 'a'; });
  const auto places = plan_slices(set, no_a);
  CHECK(in_zones(set, zones_ids_of(places)) ==
        std::map<std::string, int>{{"a", 0}, {"b", 3}, {"c", 3}});
  CHECK(stands_worse(set, no_a, places));
  // Other targets of the same zones are as good.
  const NodeSet wide = zoned({3, 3, 3});
  for (int i = 0; i < 50; ++i) {
    const auto one_less =
        needs_of(zones_digest_of(i), 6, [](const std::string& id) { return id != "b1"; });
    CHECK_FALSE(stands_worse(wide, one_less, plan_slices(wide, one_less)));
  }
}

TEST_CASE("zones: what lies in other zones than it should stands worse", "[zones]") {
  const NodeSet set = zoned({3, 3, 3});
  const auto needs = needs_of(zones_digest_of(7), 6, zones_all_take);
  const auto wanted = plan_slices(set, needs);
  CHECK_FALSE(stands_worse(set, needs, wanted));
  const std::vector<SlicePlace> uneven{{"a0", 0}, {"a1", 0}, {"a2", 0},
                                       {"b0", 0}, {"b1", 0}, {"c0", 0}};
  CHECK(stands_worse(set, needs, uneven));
  // The repair moves as many as are too many there.
  const auto replicas = zones_ids_of(uneven);
  SliceNeeds stored = needs;
  stored.holders = replicas;
  stored.good = (1U << 6U) - 1;
  const auto mended = zones_ids_of(plan_slices(set, stored));
  CHECK(in_zones(set, mended) == std::map<std::string, int>{{"a", 2}, {"b", 2}, {"c", 2}});
}

TEST_CASE("zones: a zone that is away holds all replicas of no name", "[zones]") {
  const NodeSet set = zoned({2, 2, 2});
  const auto of = [&](std::size_t count, const std::set<std::string>& ids) {
    return may_hold_all(set, count, [&](const std::string& id) { return ids.contains(id); });
  };
  CHECK_FALSE(of(2, {"a0", "a1"}));
  CHECK(of(2, {"a0", "b1"}));
  CHECK_FALSE(of(3, {"a0", "a1", "b0", "b1"}));
  CHECK(of(3, {"a0", "b0", "c0"}));
  CHECK_FALSE(of(4, {"a0", "b0", "c0"}));
  CHECK(of(4, {"a0", "b0", "c0", "c1"}));
  CHECK(of(1, {"b0"}));

  const std::uint64_t seed = test_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  int could = 0;
  for (int round = 0; round < 500; ++round) {
    const auto machines = any_machines(random, random() % 4 + 1);
    const NodeSet any = set_from(machines);
    std::set<std::string> ones;
    for (const Machine& each : machines)
      if (random() % 2 == 0) ones.insert(each.id);
    const std::size_t count = random() % any.size() + 1;
    const bool may =
        may_hold_all(any, count, [&](const std::string& id) { return ones.contains(id); });
    bool does = false;
    for (int name = 0; name < 1'000 && !does; ++name) {
      const auto replicas = replicas_of(any, random(), count);
      does = std::all_of(replicas.begin(), replicas.end(),
                         [&](auto& id) { return ones.contains(id); });
    }
    REQUIRE((may || !does));
    could += may && does ? 1 : 0;
    // Without zones it is a matter of numbers.
    REQUIRE(may_hold_all(set_from(machines, false), count, [&](const std::string& id) {
              return ones.contains(id);
            }) == (ones.size() >= count));
  }
  CHECK(could > 20);
}

TEST_CASE("zones: a code survives as many zones as its slices allow", "[zones]") {
  const auto zones = [](const std::vector<int>& targets, std::size_t k, std::size_t m,
                        bool full_copy) {
    return slice_reach(zoned(targets), k, m, full_copy).zones;
  };
  CHECK(zones({2, 2, 2}, 4, 2, false) == 1U);
  CHECK(zones({2, 2, 2}, 4, 2, true) == 1U);
  CHECK(zones({3, 3}, 2, 1, true) == 1U);              // whole and slice, or two slices
  CHECK(zones({3, 3}, 2, 1, false) == 0U);             // two of three slices in one
  CHECK(zones({1, 1, 1, 1, 1, 1}, 2, 1, true) == 1U);  // records lie in two
  CHECK(zones({3, 3, 3}, 4, 2, true) == 1U);
  CHECK(zones({2, 2}, 4, 2, false) == 0U);  // three in each
  CHECK(zones({3, 3}, 2, 2, false) == 1U);
  CHECK(zones({1, 1, 1, 1}, 2, 2, false) == 2U);
  CHECK(zones({1, 1, 4}, 4, 2, false) == 0U);  // zones of one target take one slice
  CHECK(zones({3, 3, 3, 3, 3, 3}, 4, 2, false) == 2U);
  CHECK_FALSE(zones({6}, 4, 2, false));
  CHECK(slice_reach(zoned({2, 2, 2}), 4, 2, false).nodes == 2);
}

}  // namespace zones_test
}  // namespace tarn::cluster
