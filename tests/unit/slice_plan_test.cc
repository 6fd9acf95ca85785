#include "common/cluster/place/slice_plan.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <catch2/catch.hpp>

namespace tarn::cluster {
namespace slice_plan_test {

NodeSet targets(std::size_t count, std::uint32_t drives = 4) {
  NodeSet out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string id = fmt::format("t{:02}", i);
    out.add(id, placement_digest(id), 1.0, drives);
  }
  return out;
}

std::uint64_t digest_of(std::size_t number) {
  return placement_digest(fmt::format("bucket/shard-{}.tar", number));
}

bool all_take(const std::string&) { return true; }

std::vector<std::string> ids_of(const std::vector<SlicePlace>& places) {
  std::vector<std::string> out;
  out.reserve(places.size());
  for (const SlicePlace& place : places) out.push_back(place.id);
  return out;
}

SliceNeeds new_object(std::uint64_t digest, std::size_t slices) {
  return {.name_digest = digest,
          .slices = slices,
          .after_owner = false,
          .holders = {},
          .good = 0,
          .takes = all_take};
}

SliceNeeds stored(std::uint64_t digest, std::span<const std::string> replicas) {
  SliceNeeds needs = new_object(digest, replicas.size());
  needs.holders = replicas;
  needs.good = static_cast<std::uint32_t>((std::uint64_t{1} << replicas.size()) - 1);
  return needs;
}

std::map<std::string, std::size_t> counts(const std::vector<SlicePlace>& places) {
  std::map<std::string, std::size_t> out;
  for (const SlicePlace& place : places) ++out[place.id];
  return out;
}

TEST_CASE("slice plan: with enough targets each has one, in HRW order", "[slice_plan]") {
  const NodeSet nodes = targets(8);
  const std::uint64_t digest = digest_of(1);
  const auto places = plan_slices(nodes, new_object(digest, 6));
  const auto replicas = nodes.replicas(digest, 6);
  REQUIRE(places.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) CHECK(places[i] == SlicePlace{nodes.id(replicas[i].node), 0});
  CHECK_FALSE(stands_worse(nodes, new_object(digest, 6), places));
}

TEST_CASE("slice plan: with the full copy at the owner slices begin behind it", "[slice_plan]") {
  const std::uint64_t digest = digest_of(2);
  // Six targets are too few for that: the owner has one, too.
  for (const std::size_t count : {7U, 6U}) {
    const NodeSet nodes = targets(count);
    SliceNeeds needs = new_object(digest, 6);
    needs.after_owner = true;
    const auto places = plan_slices(nodes, needs);
    const auto at_owner = counts(places)[nodes.owner(digest)];
    CHECK(at_owner == (count == 7 ? 0 : 1));
    CHECK_FALSE(stands_worse(nodes, needs, places));
    CHECK(std::none_of(places.begin(), places.end(), [](auto& each) { return each.id.empty(); }));
  }
}

TEST_CASE("slice plan: 8+2 on two targets of eight drives, five each", "[slice_plan]") {
  const NodeSet nodes = targets(2, 8);
  for (std::size_t name = 0; name < 50; ++name) {
    const auto places = plan_slices(nodes, new_object(digest_of(name), 10));
    for (const auto& [id, count] : counts(places)) CHECK(count == 5);
    std::map<std::string, std::set<std::uint32_t>> ranks;
    for (const SlicePlace& place : places) ranks[place.id].insert(place.rank);
    for (const auto& [id, each] : ranks) CHECK(each == std::set<std::uint32_t>{0, 1, 2, 3, 4});
  }
}

TEST_CASE("slice plan: too few drives leave slices without a place", "[slice_plan]") {
  const NodeSet nodes = targets(3, 1);
  const SliceNeeds needs = new_object(digest_of(3), 5);
  const auto places = plan_slices(nodes, needs);
  CHECK(counts(places)[""] == 2);
  CHECK(stands_worse(nodes, needs, places));
}

TEST_CASE("slice plan: holders are a set, no order of slices moves anything", "[slice_plan]") {
  const NodeSet nodes = targets(9);
  std::mt19937_64 random(7);
  for (std::size_t name = 0; name < 100; ++name) {
    const std::uint64_t digest = digest_of(name);
    auto replicas = ids_of(plan_slices(nodes, new_object(digest, 6)));
    std::shuffle(replicas.begin(), replicas.end(), random);
    CHECK(ids_of(plan_slices(nodes, stored(digest, replicas))) == replicas);
  }
}

TEST_CASE("slice plan: who is down or full changes nothing for what is there", "[slice_plan]") {
  const NodeSet nodes = targets(9);
  const std::uint64_t digest = digest_of(4);
  const auto replicas = ids_of(plan_slices(nodes, new_object(digest, 6)));
  SliceNeeds needs = stored(digest, replicas);
  needs.takes = [&](const std::string& id) { return id != replicas[2]; };
  CHECK(ids_of(plan_slices(nodes, needs)) == replicas);
}

TEST_CASE("slice plan: what is lost is made again where it was, if that takes it", "[slice_plan]") {
  const NodeSet nodes = targets(9);
  const std::uint64_t digest = digest_of(5);
  const auto replicas = ids_of(plan_slices(nodes, new_object(digest, 6)));
  SliceNeeds needs = stored(digest, replicas);
  needs.good &= ~(1U << 3U);
  CHECK(ids_of(plan_slices(nodes, needs)) == replicas);

  // Its target takes nothing: the slice goes to a target that has none yet, the others stay.
  needs.takes = [&](const std::string& id) { return id != replicas[3]; };
  const auto places = plan_slices(nodes, needs);
  for (std::size_t i = 0; i < 6; ++i)
    if (i != 3) CHECK(places[i].id == replicas[i]);
  CHECK(std::find(replicas.begin(), replicas.end(), places[3].id) == replicas.end());
  // As many losses can be borne as before.
  CHECK_FALSE(stands_worse(nodes, needs, places));
}

TEST_CASE("slice plan: a new object passes over who takes nothing", "[slice_plan]") {
  const std::uint64_t digest = digest_of(6);
  for (const std::uint32_t drives : {1U, 2U}) {
    const NodeSet nodes = targets(6, drives);
    const std::string full = nodes.id(nodes.replicas(digest, 6)[1].node);
    SliceNeeds needs = new_object(digest, 6);
    needs.takes = [&](const std::string& id) { return id != full; };
    const auto places = plan_slices(nodes, needs);
    CHECK(counts(places).count(full) == 0);
    CHECK(stands_worse(nodes, needs, places));
    // With one drive each no target may have two.
    CHECK(counts(places)[""] == (drives == 1 ? 1 : 0));
  }
}

TEST_CASE("slice plan: of several lost and good ones at one target the good ones stay",
          "[slice_plan]") {
  const NodeSet nodes = targets(3, 4);
  const std::uint64_t digest = digest_of(8);
  const auto& first = nodes.id(nodes.replicas(digest, 3)[0].node);
  const auto& second = nodes.id(nodes.replicas(digest, 3)[1].node);
  const auto& third = nodes.id(nodes.replicas(digest, 3)[2].node);
  // Three slices wanted, one each; two lie at the first, of which the lower one is lost.
  const std::vector<std::string> replicas{first, first, second};
  SliceNeeds needs = stored(digest, replicas);
  needs.good = 0b110;
  CHECK(ids_of(plan_slices(nodes, needs)) == std::vector<std::string>{third, first, second});
}

TEST_CASE("slice plan: a change of members moves what it must and no more", "[slice_plan]") {
  constexpr std::size_t kNames = 2000;
  constexpr std::size_t kSlices = 6;
  const NodeSet before = targets(10);
  const NodeSet after = targets(11);
  std::size_t moved = 0;
  std::size_t least = 0;
  std::map<std::string, std::size_t> have;
  for (std::size_t name = 0; name < kNames; ++name) {
    const std::uint64_t digest = digest_of(name);
    const auto old = ids_of(plan_slices(before, new_object(digest, kSlices)));
    const auto now = ids_of(plan_slices(after, stored(digest, old)));
    for (std::size_t i = 0; i < kSlices; ++i) moved += old[i] != now[i] ? 1 : 0;
    // The holders of a new object's slices are where the old slices end, in whatever order.
    auto fresh = ids_of(plan_slices(after, new_object(digest, kSlices)));
    least += static_cast<std::size_t>(std::count(fresh.begin(), fresh.end(), "t10"));
    auto sorted = now;
    std::sort(fresh.begin(), fresh.end());
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == fresh);
    for (const std::string& id : now) ++have[id];
  }
  CHECK(moved == least);
  const double share = static_cast<double>(kNames * kSlices) / 11;
  for (const auto& [id, count] : have) CHECK(static_cast<double>(count) < 1.1 * share);
}

TEST_CASE("slice plan: what a cluster can do for a code", "[slice_plan]") {
  const auto survived = [](std::size_t count, std::uint32_t drives, std::size_t k, std::size_t m) {
    return slice_reach(targets(count, drives), k, m, false).nodes;
  };
  CHECK(slice_reach(targets(3, 4), 4, 2, false).drives == 12);
  CHECK(survived(6, 2, 4, 2) == 2);
  CHECK(survived(8, 1, 4, 2) == 2);
  CHECK(survived(3, 2, 4, 2) == 1);  // two slices at each
  CHECK(survived(2, 8, 8, 2) == 0);  // five at each
  CHECK(survived(2, 4, 1, 4) == 1);  // not both: one must have the record
  CHECK(survived(4, 1, 4, 2) == 0);  // there is no place for all slices
  CHECK(slice_reach(targets(4, 1), 2, 1, true).nodes == 1);
  CHECK(slice_reach({}, 1, 1, false).drives == 0);
}

TEST_CASE("slice plan: standing members are those that stay, down or not", "[slice_plan]") {
  Ownership map;
  const auto add = [&](const std::string& id, std::uint64_t flags) {
    map.members.push_back({id, placement_digest(id), 1.0, 2, flags, 0});
  };
  add("down", kDown);
  add("leaves", kDecommission);
  add("out", kDown | kOut);
  add("put-aside", kMaintenance);
  add("up", 0);
  const NodeSet standing = standing_members(map);
  REQUIRE(standing.size() == 2);
  CHECK(standing.contains("down"));
  CHECK(standing.contains("up"));
}

}  // namespace slice_plan_test
}  // namespace tarn::cluster
