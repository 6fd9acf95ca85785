#include "common/cluster/place/ownership.h"

#include <map>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "common/cluster/place/ownership_json.h"
#include "common/cluster/place/rebalance_plan.h"
#include "tests/simulation/move_count.h"
#include "tests/unit/ownership_fixture.h"

namespace tarn::cluster {
namespace ownership_test {

std::uint64_t digest_of(int i) { return placement_digest("ais/@#/data/" + std::to_string(i)); }

NodeSet set_of(int nodes, std::uint32_t drives) {
  NodeSet out;
  for (int i = 0; i < nodes; ++i) {
    const std::string id = "t" + std::to_string(i);
    out.add(id, placement_digest(id), 1.0, drives);
  }
  return out;
}

TEST_CASE("ownership: copies lie on distinct nodes while there are enough", "[ownership]") {
  const NodeSet set = set_of(12, 8);
  for (int i = 0; i < 100; ++i) {
    const auto replicas = set.replicas(digest_of(i), 10);
    std::set<std::size_t> nodes;
    for (const Replica& replica : replicas) nodes.insert(replica.node);
    CHECK(nodes.size() == 10);
    CHECK(set.id(replicas.front().node) == set.owner(digest_of(i)));
  }
}

TEST_CASE("ownership: 8+2 on two machines of eight drives spreads evenly over drives",
          "[ownership]") {
  const NodeSet set = set_of(2, 8);
  for (int i = 0; i < 20; ++i) {
    const auto replicas = set.replicas(digest_of(i), 10);
    CHECK(std::set<Replica>(replicas.begin(), replicas.end()).size() == 10);
    std::map<std::size_t, int> of_node;
    for (const Replica& replica : replicas) ++of_node[replica.node];
    CHECK(of_node[0] == 5);
    CHECK(of_node[1] == 5);
  }
  CHECK(set.replicas(digest_of(1), 20).size() == 16);
  CHECK(NodeSet{}.replicas(digest_of(1), 2).empty());
}

TEST_CASE("ownership: a set that owned stays until all of it has moved", "[ownership]") {
  const Ownership one = map_of({"t1", "t2"});
  const Ownership two = with_member(one, member("t3"));
  CHECK(two.version == one.version + 1);
  REQUIRE(two.past.size() == 1);
  CHECK(two.past.front().last == one.version);
  CHECK(two.past.front().nodes == one.current);
  CHECK(may_hold_any(two) == std::vector<std::string>{"t1", "t2", "t3"});
  const auto not_yet = without_done_sets(two, [](const std::string& id) { return id == "t1"; });
  CHECK_FALSE(not_yet);
  const auto done = without_done_sets(two, [](const std::string&) { return true; });
  REQUIRE(done);
  CHECK(done->past.empty());
  CHECK(done->version == two.version + 1);
}

TEST_CASE("ownership: a restart leaves one past epoch, however often it comes", "[ownership]") {
  const Ownership all = map_of({"t1", "t2", "t3"});
  Ownership map = all;
  for (int i = 0; i < 5; ++i) {
    map = with_flags(map, "t2", kDown, 0).value();
    REQUIRE(map.past.size() == 1);
    CHECK(map.past.front().nodes == all.current);
    map = with_flags(map, "t2", 0, kDown).value();
    REQUIRE(map.past.size() == 1);
    CHECK_FALSE(map.past.front().nodes.contains("t2"));
    CHECK(map.past.front().last == map.version - 1);
  }
  CHECK_FALSE(with_flags(map, "t2", 0, kDown));
  CHECK_FALSE(with_flags(map, "nobody", kDown, 0));
}

TEST_CASE("ownership: the owner asks older owners only for what may be newer", "[ownership]") {
  const Ownership before = map_of({"t1", "t2"});
  const Ownership after = with_member(before, member("t3"));
  const auto moved = placement_digest(name_that_moves(before, after, "t1", "t3"));
  const auto stays = placement_digest(name_that_moves(before, after, "t1", "t1"));
  CHECK(readers_of(after, "t1", stays, 1, 0).empty());
  const auto groups = readers_of(after, "t3", moved, 1, 0);
  REQUIRE(groups.size() == 1);
  CHECK(groups.front().replicas == std::vector<std::string>{"t1"});
  CHECK(readers_of(after, "t3", moved, 1, before.version).size() == 1);
  CHECK(readers_of(after, "t3", moved, 1, after.version).empty());
  // Two copies: t3 lacks what it was no replica of; one answer of t1 or t2 is enough.
  const auto copies = readers_of(after, "t3", moved, 2, 0);
  REQUIRE(copies.size() == 1);
  CHECK(copies.front().replicas == std::vector<std::string>{"t1", "t2"});
  CHECK(readers_of(after, "t1", stays, 2, 0).empty());
}

TEST_CASE("ownership: a node that returns asks who wrote while it was away", "[ownership]") {
  const Ownership all = map_of({"t1", "t2"});
  const Ownership away = with_flags(all, "t1", kDown, 0).value();
  const Ownership back = with_flags(away, "t1", 0, kDown).value();
  const auto name = placement_digest(name_that_moves(all, away, "t1", "t2"));
  CHECK(writer_of(away, name) == "t2");
  CHECK(writer_of(back, name) == "t1");
  CHECK(readers_of(away, "t2", name, 1, 0).size() == 1);
  CHECK(readers_of(back, "t1", name, 1, all.version).size() == 1);
  CHECK(readers_of(back, "t1", name, 1, back.version).empty());
}

TEST_CASE("ownership: a tombstone stays while another may hold the name", "[ownership]") {
  const Ownership before = map_of({"t1", "t2"});
  const Ownership after = with_member(before, member("t3"));
  const auto moved = placement_digest(name_that_moves(before, after, "t1", "t3"));
  CHECK_FALSE(may_drop_tombstone(after, "t3", moved, 1, true));
  const auto done = without_done_sets(after, [](const std::string&) { return true; }).value();
  CHECK(may_drop_tombstone(done, "t3", moved, 1, true));
  CHECK_FALSE(may_drop_tombstone(done, "t3", moved, 2, false));
  CHECK_FALSE(may_drop_tombstone(done, "t1", moved, 1, true));
}

TEST_CASE("ownership: copies of an older map and of fenced nodes are refused", "[ownership]") {
  const Ownership before = map_of({"t1", "t2"});
  const Ownership after = with_member(before, member("t3"));
  const auto moved = placement_digest(name_that_moves(before, after, "t1", "t3"));
  CHECK(accepts_copy(after, "t3", moved, 1, {"t1", after.version}));
  CHECK_FALSE(accepts_copy(after, "t3", moved, 1, {"t1", before.version}));
  CHECK_FALSE(accepts_copy(after, "t2", moved, 1, {"t1", after.version}));
  const auto fenced = without_member(after, "t1").value();
  CHECK_FALSE(fenced.find("t1"));
  for (const PastEpoch& set : fenced.past)
    CHECK(set.lost ==
          (set.nodes.contains("t1") ? std::vector<std::string>{"t1"} : std::vector<std::string>{}));
  CHECK_FALSE(accepts_copy(fenced, "t3", moved, 1, {"t1", fenced.version}));
}

TEST_CASE("ownership: a past epoch names the replicas that names had, whoever is removed since",
          "[ownership]") {
  const Ownership all = map_of({"t1", "t2", "t3", "t4"});
  const Ownership less = without_member(all, "t1").value();
  REQUIRE(less.past.size() == 1);
  CHECK(may_hold_any(less) == std::vector<std::string>{"t2", "t3", "t4"});
  int moved = 0;
  for (int i = 0; i < 200; ++i) {
    const auto before = all.current.replicas(digest_of(i), 2);
    const std::string owner = all.current.id(before[0].node);
    const std::string second = all.current.id(before[1].node);
    if (owner != "t1" && second != "t1") continue;
    const std::string& other = owner == "t1" ? second : owner;
    const auto now = less.current.replicas(digest_of(i), 2);
    for (const Replica& replica : now) {
      const std::string self = less.current.id(replica.node);
      const auto groups = readers_of(less, self, digest_of(i), 2, 0);
      if (self == other) {
        CHECK(groups.empty());
        CHECK(plan_name(less, self, digest_of(i), 2).send.size() == 1);
        continue;
      }
      ++moved;
      REQUIRE(groups.size() == 1);
      CHECK(groups.front() == ReadGroup{less.past.front().last, {other}, false});
      CHECK(plan_name(less, self, digest_of(i), 2).send.empty());
    }
    // Of one copy, what only it held is given up.
    if (owner == "t1")
      CHECK(readers_of(less, less.current.owner(digest_of(i)), digest_of(i), 1, 0).empty());
  }
  CHECK(moved > 50);
  // The set goes when all that are left have moved, and not before.
  CHECK_FALSE(without_done_sets(less, [](const std::string& id) { return id != "t3"; }));
  CHECK(without_done_sets(less, [](const std::string& id) { return id != "t1"; })
            .value()
            .past.empty());
  // It comes back empty, and is asked for nothing.
  const Ownership again = with_member(less, member("t1"));
  REQUIRE_FALSE(again.past.empty());
  CHECK(again.past.back().lost == std::vector<std::string>{"t1"});
}

TEST_CASE("ownership: who has lost a drive asks others, and is given what it had", "[ownership]") {
  const Ownership all = map_of({"t1", "t2", "t3"});
  const Ownership lost = with_loss(all, "t2", 77);
  CHECK(lost.version == all.version + 1);
  CHECK(lost.find("t2")->drive_set == 77);
  CHECK(lost.current == all.current);
  REQUIRE(lost.past.size() == 1);
  int given = 0;
  for (int i = 0; i < 100; ++i) {
    if (!all.current.is_replica("t2", digest_of(i), 2)) continue;
    const auto groups = readers_of(lost, "t2", digest_of(i), 2, 0);
    REQUIRE(groups.size() == 1);
    REQUIRE(groups.front().replicas.size() == 1);
    const std::string& other = groups.front().replicas.front();
    CHECK_FALSE(groups.front().all_needed);
    CHECK(readers_of(lost, other, digest_of(i), 2, 0).empty());
    CHECK(plan_name(lost, other, digest_of(i), 2).send == std::vector<std::string>{"t2"});
    ++given;
  }
  CHECK(given > 30);
  // Both replicas have lost something: no word is enough.
  const Ownership both = with_loss(lost, "t1", 78);
  for (int i = 0; i < 100; ++i) {
    if (both.current.is_replica("t3", digest_of(i), 2)) continue;
    const auto groups = readers_of(both, "t1", digest_of(i), 2, 0);
    REQUIRE(groups.size() == 2);  // what was written in between, and before
    CHECK(groups.front() == ReadGroup{lost.version, {"t2"}, false});
    CHECK(groups.back() == ReadGroup{all.version, {"t2", "t3"}, true});
  }
  const auto done = without_done_sets(both, [](const std::string&) { return true; });
  REQUIRE(done);
  CHECK(done->past.empty());
}

TEST_CASE("ownership: nobody waits for who is out where there are other copies", "[ownership]") {
  const Ownership all = map_of({"t1", "t2", "t3"});
  const Ownership out = with_flags(all, "t1", kDown | kOut, 0).value();
  const auto but_t1 = [](const std::string& id) { return id != "t1"; };
  CHECK_FALSE(without_done_sets(out, but_t1));
  CHECK_FALSE(with_given_sets(out, [](const std::string& id) { return id == "t2"; }));
  const Ownership given = with_given_sets(out, but_t1).value();
  CHECK(given.version == out.version + 1);
  CHECK(given.past.front().only_for == std::vector<std::string>{"t1"});
  CHECK_FALSE(with_given_sets(given, but_t1));
  CHECK(decode_ownership(encode(given)).value().past == given.past);
  // Another one dies: the third has what both had.
  const Ownership too_early = with_flags(out, "t2", kDown, 0).value();
  const Ownership second = with_flags(given, "t2", kDown, 0).value();
  int of_both = 0;
  for (int i = 0; i < 100; ++i) {
    CHECK(readers_of(second, "t3", digest_of(i), 2, 0).empty());
    if (all.current.is_replica("t3", digest_of(i), 2)) continue;
    ++of_both;
    CHECK_FALSE(readers_of(too_early, "t3", digest_of(i), 2, 0).empty());
  }
  CHECK(of_both > 10);
  // Single copies of the first one are not given up.
  for (int i = 0; i < 100; ++i)
    if (all.current.owner(digest_of(i)) == "t1")
      CHECK(readers_of(given, given.current.owner(digest_of(i)), digest_of(i), 1, 0).size() == 1);
}

TEST_CASE("ownership: another number of copies makes the same targets other replicas",
          "[ownership]") {
  const Ownership two = map_of({"t1", "t2", "t3"});
  const Ownership three = with_other_copies(two);
  std::vector<PastReplicaCount> before;
  note_replica_count(before, three, 2);
  CHECK(before == std::vector<PastReplicaCount>{{two.version, 2}});
  REQUIRE(three.past.size() == 1);
  CHECK(three.past.front().nodes == three.current);
  const ReplicaCount more(3, before);
  const ReplicaCount same(2);
  for (int i = 0; i < 100; ++i) {
    const auto digest = digest_of(i);
    for (const char* id : {"t1", "t2", "t3"}) {
      const bool was_replica = two.current.is_replica(id, digest, 2);
      CHECK(readers_of(three, id, digest, more, 0).empty() == was_replica);
      CHECK(plan_name(three, id, digest, more).keep);
      CHECK(plan_name(three, id, digest, more).send.size() ==
            (two.current.owner(digest) == id ? 1 : 0));
      // Nothing is another for the names of other buckets.
      if (was_replica) CHECK(readers_of(three, id, digest, same, 0).empty());
      CHECK(plan_name(three, id, digest, same).keep == was_replica);
    }
  }
  // And back: what is no replica any more gives it up once the others have it.
  const Ownership back = with_other_copies(three);
  note_replica_count(before, back, 3);
  CHECK(before == std::vector<PastReplicaCount>{{two.version, 2}, {three.version, 3}});
  CHECK(back.past.size() == 2);
  const ReplicaCount less(2, before);
  for (int i = 0; i < 100; ++i)
    CHECK(plan_name(back, "t3", digest_of(i), less).keep ==
          back.current.is_replica("t3", digest_of(i), 2));
  // Replica counts of versions without a past epoch are forgotten with the next change.
  const auto all = [](const std::string&) { return true; };
  const Ownership moved = without_done_sets(back, all).value();
  CHECK(moved.past.empty());
  note_replica_count(before, with_other_copies(moved), 2);
  CHECK(before == std::vector<PastReplicaCount>{{moved.version, 2}});
}

TEST_CASE("ownership: the map is the same after encoding", "[ownership]") {
  Ownership map = map_of({"t1", "t2", "t3"});
  map = with_loss(map, "t3", 12345);
  map = with_other_copies(map);
  map = with_member(map, member("t4", 2.5, 24));
  map = with_flags(map, "t2", kDown, 0).value();
  map = with_flags(map, "t1", kMaintenance, 0).value();
  const auto again = decode_ownership(encode(map));
  REQUIRE(again);
  CHECK(again->version == map.version);
  CHECK(again->current == map.current);
  REQUIRE(again->past.size() == map.past.size());
  for (std::size_t i = 0; i < map.past.size(); ++i) {
    CHECK(again->past[i].last == map.past[i].last);
    CHECK(again->past[i].nodes == map.past[i].nodes);
    CHECK(again->past[i].lost == map.past[i].lost);
    CHECK(again->past[i].copies_since == map.past[i].copies_since);
  }
  CHECK(encode(*again) == encode(map));
  for (const char* wrong :
       {"", "{}", R"({"version":1,"members":[{"id":"b"},{"id":"a"}],"past":[]})",
        R"({"version":1,"members":[{"id":"a","weight":0}],"past":[]})",
        R"({"version":1,"members":[{"id":"a"}],"past":[{"last":1}]})"})
    CHECK_FALSE(decode_ownership(wrong));
}

TEST_CASE("rebalance: a join moves its share and nothing else", "[ownership]") {
  Ownership before;
  for (int i = 0; i < 20; ++i) before = with_member(before, member("t" + std::to_string(100 + i)));
  before.past.clear();
  const Ownership after = with_member(before, member("t200"));
  MoveCount count;
  for (int i = 0; i < 20'000; ++i) {
    count_move(count, before.current, after.current, digest_of(i));
    const std::string from = before.current.owner(digest_of(i));
    const auto plan = plan_name(after, from, digest_of(i), 1);
    const bool moved = after.current.owner(digest_of(i)) != from;
    CHECK(plan.keep != moved);
    CHECK(plan.send == (moved ? std::vector<std::string>{"t200"} : std::vector<std::string>{}));
  }
  const double least = least_share(before.current, after.current);
  CHECK(least == Approx(1.0 / 21));
  CHECK(static_cast<double>(count.moved) / 20'000 == Approx(least).margin(0.005));
}

TEST_CASE("rebalance: nothing moves when a node is down, copies are made when it is out",
          "[ownership]") {
  const Ownership all = map_of({"t1", "t2", "t3"});
  const Ownership down = with_flags(all, "t1", kDown, 0).value();
  const Ownership out = with_flags(down, "t1", kOut, 0).value();
  int rebuilt = 0;
  for (int i = 0; i < 200; ++i) {
    int senders = 0;
    for (const char* self : {"t2", "t3"}) {
      CHECK(plan_name(down, self, digest_of(i), 2).send.empty());
      senders += plan_name(out, self, digest_of(i), 2).send.empty() ? 0 : 1;
    }
    const bool was_replica = all.current.is_replica("t1", digest_of(i), 2);
    CHECK(senders == (was_replica ? 1 : 0));
    rebuilt += senders;
  }
  CHECK(rebuilt > 100);
}

TEST_CASE("rebalance: a copy that was alone is given to all replicas that there are now",
          "[ownership]") {
  Ownership now = map_of({"t1", "t2", "t3"});
  now.past.clear();
  NodeSet alone;
  alone.add("t2", placement_digest("t2"), 1.0, 1);
  now.past.push_back({now.version - 1, alone, {}, {}});
  for (int i = 0; i < 100; ++i) {
    const auto plan = plan_name(now, "t2", digest_of(i), 2);
    CHECK(plan.keep == now.current.is_replica("t2", digest_of(i), 2));
    CHECK(plan.send.size() == (plan.keep ? 1 : 2));
  }
}

}  // namespace ownership_test
}  // namespace tarn::cluster
