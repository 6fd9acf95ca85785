#include "common/cluster/node/membership.h"

#include <atomic>
#include <thread>

#include <catch2/catch.hpp>

#include "common/cluster/node/coordination.h"
#include "common/cluster/state/bucket_changes.h"
#include "common/cluster/state/member_change.h"
#include "common/cluster/store/keys.h"
#include "tests/unit/membership_fixture.h"

namespace tarn::cluster {
namespace membership_test {

using namespace std::chrono_literals;
using namespace testing;
using test::eventually;
using test::fastest;
using test::TaskRunner;
using testing::Member;

TEST_CASE("A lease is counted from when its renewal was sent, and ends half a second early",
          "[cluster][membership]") {
  ManualClock clock;
  LeaseClock lease(clock);
  CHECK_FALSE(lease.valid());
  CHECK(lease.stale_seconds() == 1);
  const BootTime sent = clock.boot_time();
  clock.advance(1s);
  lease.renewed(sent);
  CHECK(lease.valid());
  CHECK(lease.stale_seconds() == 0);
  clock.advance(2499ms);
  CHECK(lease.valid());
  clock.advance(1ms);
  CHECK_FALSE(lease.valid());
  CHECK(lease.stale_seconds() == 1);
  clock.advance(3s);
  CHECK(lease.stale_seconds() == 3);
  lease.renewed(clock.boot_time());
  clock.advance(1s);
  lease.lost();
  CHECK_FALSE(lease.valid());
  clock.advance(1500ms);
  CHECK(lease.stale_seconds() == 2);
  lease.lost();  // a second call does not move the end
  CHECK(lease.stale_seconds() == 2);
}

TEST_CASE("A cluster is made once", "[cluster][membership]") {
  Cluster cluster;
  CHECK(cluster.run(cluster.view.load()).error().code == Errc::not_found);
  const auto uuid = cluster.run(bootstrap(cluster.flaky, "data", cluster.clock));
  REQUIRE(uuid);
  CHECK(cluster.run(bootstrap(cluster.flaky, "other", cluster.clock)) == *uuid);
  REQUIRE(cluster.run(cluster.view.load()));
  const auto state = cluster.view.state();
  CHECK(state->uuid == *uuid);
  CHECK(state->map.uuid == *uuid);
  CHECK(state->map.version == 1);
  CHECK(state->bmd.buckets.size() == 1);
  CHECK(state->bmd.find(bucket("data")) != nullptr);
}

TEST_CASE("A cluster whose making had an unknown outcome is made once", "[cluster][membership]") {
  Cluster cluster;
  cluster.flaky.lost_answers = 1;
  const auto uuid = cluster.run(bootstrap(cluster.flaky, "data", cluster.clock));
  REQUIRE(uuid);
  REQUIRE(cluster.run(cluster.view.load()));
  CHECK(cluster.view.state()->uuid == *uuid);
}

TEST_CASE("A view never goes back, and reads the store for what it has not got",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  ClusterView other(*cluster.store, cluster.clock);
  REQUIRE(cluster.run(other.load()));
  const auto old = other.state();
  REQUIRE(cluster.create("photos"));
  CHECK(other.state() == old);
  const auto newer = cluster.run(other.at_least(1, 2));
  REQUIRE(newer);
  CHECK((*newer)->bmd.find(bucket("photos")) != nullptr);
  CHECK(cluster.run(other.at_least(1, 3)).error().code == Errc::unavailable);
  CHECK(cluster.run(other.fresh()).value()->bmd.version == 2);
}

TEST_CASE("A follower sees changes as they happen and tells each to its listeners",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  std::atomic<std::uint64_t> told{0};
  std::atomic<bool> in_order{true};
  ClusterView view(cluster.flaky, cluster.clock, 1h);  // by the watch, not by the poll
  view.on_change([&](const ClusterState& before, const ClusterState& now) {
    if (now.revision <= before.revision || before.bmd.version != told) in_order = false;
    told = now.bmd.version;
  });
  http::TaskGroup tasks;
  tasks.spawn(cluster.run.executor(), "view", view.follow());
  CHECK(eventually([&] { return told == 1; }));
  ClusterView other(*cluster.store, cluster.clock);
  REQUIRE(cluster.run(create_bucket(*cluster.store, other, bucket("photos"), {}, cluster.clock)));
  CHECK(eventually([&] { return told == 2; }));
  // One that another read brought is told all the same.
  REQUIRE(cluster.run(create_bucket(cluster.flaky, view, bucket("second"), {}, cluster.clock)));
  CHECK(eventually([&] { return told == 3; }));
  CHECK(in_order);
  CHECK(tasks.close(5));
}

TEST_CASE("A node joins, and a restart changes the map only when it moved",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  std::uint64_t incarnation = 0;
  {
    Membership first(cluster.flaky, cluster.view, node("tgtBBBB2", Role::target), cluster.clock);
    REQUIRE(cluster.run(first.join()));
    incarnation = first.incarnation();
    CHECK(incarnation > 0);
    CHECK(first.lease().valid());
    CHECK(cluster.view.state()->map.version == 2);
    CHECK(cluster.view.state()->live.contains("tgtBBBB2"));
    cluster.run(first.leave());
    CHECK_FALSE(first.lease().valid());
    CHECK(cluster.live().empty());
  }
  Membership second(cluster.flaky, cluster.view, node("tgtBBBB2", Role::target), cluster.clock);
  cluster.flaky.lost_answers = 1;
  REQUIRE(cluster.run(second.join()));
  CHECK(cluster.view.state()->map.version == 2);
  CHECK(second.incarnation() > incarnation);
  CHECK(second.incarnation() == static_cast<std::uint64_t>(cluster.live().at(0).mod_revision));
  cluster.run(second.leave());
}

TEST_CASE("Joining ends at once where no repetition helps, and waits for a cluster to be made",
          "[cluster][membership]") {
  Cluster cluster;
  Membership target(cluster.flaky, cluster.view, node("tgtBBBB2", Role::target), cluster.clock);
  auto joining = asio::co_spawn(cluster.run.executor(), target.join(), asio::use_future);
  CHECK(joining.wait_for(100ms) == std::future_status::timeout);
  REQUIRE(cluster.run(bootstrap(*cluster.store, "data", cluster.clock)));
  CHECK(joining.get());
  cluster.run(target.leave());

  Transaction damage;
  damage.puts.push_back({std::string(keys::kMap), "{", 0});
  REQUIRE(cluster.run(cluster.store->commit(damage)));
  CHECK(cluster.run(target.join()).error().code == Errc::corrupt);
}

TEST_CASE("A target joins at any time, but with objects only while it is in the map",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(*cluster.store, "data", cluster.clock)));
  REQUIRE(cluster.run(cluster.view.load()));
  const auto holds_objects = []() -> Task<Result<bool>> { co_return false; };
  const auto is_empty = []() -> Task<Result<bool>> { co_return true; };
  Member first(cluster, "t1", Role::target);
  first.membership.empty_if(is_empty);
  first.start();
  Member stranger(cluster, "t2", Role::target);
  stranger.membership.empty_if(holds_objects);
  const Status refused = cluster.run(stranger.membership.join());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unsupported);
  CHECK_THAT(refused.error().message, Catch::Contains("with empty drives"));
  Member late(cluster, "t2", Role::target);
  late.membership.empty_if(is_empty);
  late.start();
  Member again(cluster, "t1", Role::target);
  again.membership.empty_if(holds_objects);
  again.start();
  const auto state = cluster.run(cluster.view.fresh()).value();
  CHECK(state->map.nodes.size() == 2);
  // Until they say that they hold nothing of others, those who owned names before may hold some.
  REQUIRE(state->map.past.size() == 1);
  CHECK(state->map.past.front().nodes.contains("t1"));
  CHECK_FALSE(state->map.past.front().nodes.contains("t2"));
}

TEST_CASE("A target joins targets with zones only if it has one", "[cluster][membership][zones]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(*cluster.store, "data", cluster.clock)));
  REQUIRE(cluster.run(cluster.view.load()));
  const auto join = [&](const std::string& id, const std::string& zone) {
    Node target = node(id, Role::target);
    target.zone = zone;
    Membership membership(cluster.flaky, cluster.view, target, cluster.clock);
    membership.empty_if([]() -> Task<Result<bool>> { co_return true; });
    const Status joined = cluster.run(membership.join());
    cluster.run(membership.leave());
    return joined;
  };
  const auto schema = [&] {
    RangeRequest request{std::string(keys::kSchema), "", 0};
    return cluster.run(cluster.store->range(request))->items.front().value;
  };
  REQUIRE(join("t1", ""));
  CHECK(schema() == keys::kSchemaText);

  // An older program would look for objects where zones do not put them.
  Transaction old;
  old.puts.push_back({keys::live("p1"), R"({"role":"proxy","map":1,"bmd":1})", 0});
  REQUIRE(cluster.run(cluster.store->commit(old)));
  const Status early = join("t1", "a");
  REQUIRE_FALSE(early);
  CHECK(early.error().code == Errc::unsupported);
  CHECK_THAT(early.error().message, Catch::Contains("node p1 runs a version of Tarn"));
  Transaction gone;
  gone.deletes.push_back({keys::live("p1"), ""});
  REQUIRE(cluster.run(cluster.store->commit(gone)));

  REQUIRE(join("t1", "a"));
  CHECK(schema() == keys::kZonesSchemaText);
  const Status refused = join("t2", "");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unsupported);
  CHECK_THAT(refused.error().message, Catch::Contains("start it with --zone"));
  REQUIRE(join("t2", "b"));
  REQUIRE(join("t2", ""));  // a member keeps its zone
  const auto state = cluster.run(cluster.view.fresh()).value();
  CHECK(state->map.find("t2")->zone == "b");
  CHECK(state->ownership->map->current.zones() == 2);
}

TEST_CASE("A proxy that leads publishes who went down and came back, and settles each version",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(*cluster.store, "data", cluster.clock)));
  Member proxy(cluster, "p1", Role::proxy);
  proxy.start();
  proxy.tasks.spawn(cluster.run.executor(), "task",
                    coordinate(cluster.flaky, proxy.view, proxy.membership, cluster.clock,
                               Leader::this_proxy, {}, proxy.absences));
  const auto now = [&] { return cluster.run(cluster.view.fresh()).value(); };
  const auto settled = [&] {
    const auto state = now();
    return state->ownership->settled == state->map.version;
  };
  Member stays(cluster, "t1", Role::target);
  stays.start();
  {
    Member gone(cluster, "p2", Role::proxy);
    gone.start();
  }
  {
    Member goes(cluster, "t2", Role::target);
    goes.start();
    CHECK(eventually([&] { return settled(); }));
    CHECK(now()->map.placeable_targets().size() == 2);
  }
  const auto lost = std::chrono::steady_clock::now();
  while (now()->map.placeable_targets().size() == 2 &&
         std::chrono::steady_clock::now() < lost + 20s)
    std::this_thread::sleep_for(20ms);
  auto state = now();
  CHECK(state->map.nodes.at("t2").flags == kDown);
  CHECK(proxy.absences.since().contains("t2"));
  CHECK(proxy.absences.since().size() == 1);  // neither a target that is there, nor a proxy
  CHECK(owner_of(state->map, "ais/@#/data/x")->id == "t1");
  CHECK(state->map.past.front().nodes.contains("t2"));
  CHECK(eventually([&] { return settled(); }));
  const std::uint64_t down = state->map.version;
  Member back(cluster, "t2", Role::target);
  back.start();
  CHECK(eventually([&] { return settled() && now()->map.version > down; }));
  CHECK(now()->map.nodes.at("t2").flags == 0);
  CHECK(now()->map.placeable_targets().size() == 2);
}

TEST_CASE("A node that is decommissioned gives its lease back and comes only when it is told to",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(*cluster.store, "data", cluster.clock)));
  Member leads(cluster, "p1", Role::proxy);
  leads.start();
  leads.tasks.spawn(cluster.run.executor(), "task",
                    coordinate(cluster.flaky, leads.view, leads.membership, cluster.clock,
                               Leader::this_proxy, {}, leads.absences));
  bool empty = false;
  Member stays(cluster, "t1", Role::target);
  Member leaves(cluster, "t2", Role::target);
  leaves.membership.empty_if([&empty]() -> Task<Result<bool>> { co_return empty; });
  empty = true;
  stays.start();
  leaves.start();
  empty = false;
  CHECK(eventually([&] {
    const auto state = cluster.run(cluster.view.fresh()).value();
    return state->ownership->settled == state->map.version && state->map.nodes.size() == 3;
  }));
  CHECK_FALSE(leaves.membership.dismissed());
  CHECK(cluster.run(leaves.membership.come_back()).error().code == Errc::conflict);

  MemberChange change;
  change.action = MemberChange::Action::decommission;
  change.ids = {"t2"};
  change.skip_rebalance = change.no_shutdown = true;
  const auto edit = [&](const Smap& map, const std::set<std::string>& live) {
    return with_member_change(map, live, change);
  };
  REQUIRE(cluster.run(change_map(cluster.flaky, cluster.view, edit)));
  CHECK(eventually([&] { return leaves.membership.dismissed().has_value(); }));
  CHECK(leaves.membership.dismissed() == (kDecommission | kGivenUp));
  CHECK(eventually([&] { return leaves.membership.is_outside(); }));
  CHECK(cluster.live().size() == 2);
  const Status refused = cluster.run(leaves.membership.come_back());
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, Catch::Contains("with empty drives"));
  CHECK(cluster.run(cluster.view.fresh()).value()->map.find("t2") == nullptr);
  empty = true;
  CHECK(cluster.run(leaves.membership.come_back()));
  CHECK_FALSE(leaves.membership.dismissed());
  CHECK(leaves.membership.lease().valid());
  CHECK(cluster.run(cluster.view.fresh()).value()->map.nodes.at("t2").flags == 0);
}

TEST_CASE("Background work that is stopped before it has begun ends all the same",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  for (int i = 0; i < 50; ++i) {
    Member member(cluster, "tgtBBBB2", Role::target);
    member.start();
  }
}

TEST_CASE("A follower that is stopped while a change arrives ends all the same",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  std::atomic<bool> stopped{false};
  std::thread writer([&] {
    TaskRunner own;
    for (int i = 0; !stopped; ++i) {
      Transaction change;
      change.puts.push_back({std::string(keys::kAll) + "news", std::to_string(i), 0});
      (void)own(cluster.store->commit(std::move(change)));
    }
  });
  int hanging = 0;
  for (int i = 0; i < 150 && hanging == 0; ++i) {
    ClusterView view(cluster.flaky, cluster.clock);
    http::TaskGroup tasks;
    tasks.spawn(cluster.run.executor(), "view", view.follow());
    std::this_thread::sleep_for(std::chrono::microseconds(random_u64() % 2000));
    if (tasks.close(5)) continue;
    ++hanging;
    cluster.store->end_watches();  // so that the test can end
    CHECK(tasks.close(5));
  }
  stopped = true;
  writer.join();
  CHECK(hanging == 0);
}

TEST_CASE("A node acknowledges what it has put in force, and the wait for it ends then",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  std::atomic<std::uint64_t> in_force{1};
  Member target(cluster, "tgtBBBB2", Role::target);
  target.membership.acknowledge_with([&] { return LiveRecord{Role::target, 2, in_force.load()}; });
  target.start();
  Member proxy(cluster, "prxAAAA1", Role::proxy);
  proxy.start();
  REQUIRE(cluster.create("photos"));
  std::uint64_t version = 2;
  const auto wait = [&](std::chrono::milliseconds limit) {
    return cluster.run(wait_acknowledged(cluster.flaky, cluster.view, version, limit));
  };
  const auto late = wait(200ms);
  CHECK(late.error().code == Errc::timeout);
  CHECK(late.error().message.find("tgtBBBB2") != std::string::npos);
  const auto took = fastest(500ms, [&] {
    in_force = version;
    CHECK(wait(60s));
    REQUIRE(cluster.create("another" + std::to_string(++version)));
  });
  CHECK(took < 500ms);
}

TEST_CASE("A node whose lease is gone takes a new one and keeps its incarnation",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  Member target(cluster, "tgtBBBB2", Role::target);
  target.start();
  const auto incarnation = target.membership.incarnation();
  const KeyValue before = cluster.live().at(0);
  REQUIRE(cluster.run(cluster.store->revoke(before.lease)));
  CHECK(eventually([&] {
    const auto now = cluster.live();
    return !now.empty() && now[0].lease != before.lease;
  }));
  CHECK(eventually([&] { return target.membership.lease().valid(); }));
  CHECK(target.membership.incarnation() == incarnation);
  CHECK(eventually([&] { return target.view.state()->live.contains("tgtBBBB2"); }));
}

TEST_CASE(
    "A node without its store knows the end of its lease before the store does, and comes back",
    "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  Member target(cluster, "tgtBBBB2", Role::target);
  target.start();
  cluster.flaky.away = true;
  std::atomic<bool> early{false};
  auto last_valid = std::chrono::steady_clock::now();
  CHECK(eventually([&] {
    // In this order: a thread that is held up between the two takes neither for earlier.
    const bool ended = cluster.live().empty();
    const auto now = std::chrono::steady_clock::now();
    const bool valid = target.membership.lease().valid();
    if (valid && ended) early = true;
    if (valid) last_valid = now;
    return !valid;
  }));
  CHECK_FALSE(early);
  // The store still counts it as alive, for the half second between the two ends.
  const bool counts = !cluster.live().empty();
  CHECK((counts || std::chrono::steady_clock::now() - last_valid > LeaseTerm().margin()));
  CHECK(eventually([&] { return cluster.live().empty(); }));
  cluster.flaky.away = false;
  CHECK(eventually([&] { return target.membership.lease().valid(); }));
  CHECK(cluster.live().size() == 1);
}

TEST_CASE("A node keeps its lease with a store whose answers take longer than two renewals",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  Member target(cluster, "tgtBBBB2", Role::target);
  target.start();
  cluster.flaky.slow = 2'050ms;
  const auto keeps = [&] {
    for (const auto end = std::chrono::steady_clock::now() + 6s;
         std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(5ms))
      if (!target.membership.lease().valid()) return false;
    return true;
  };
  // A machine that stands still for half a second costs it the lease once, and not each time.
  bool kept = keeps();
  for (int again = 0; !kept && again < 4; ++again) {
    REQUIRE(eventually([&] { return target.membership.lease().valid(); }));
    kept = keeps();
  }
  CHECK(kept);
  // A lease that is gone is taken anew, though that takes longer than a lease lasts.
  const KeyValue before = cluster.live().at(0);
  REQUIRE(cluster.run(cluster.store->revoke(before.lease)));
  CHECK(eventually([&] {
    const auto now = cluster.live();
    return !now.empty() && now[0].lease != before.lease && target.membership.lease().valid();
  }));
  cluster.flaky.slow = 0ms;
}

}  // namespace membership_test
}  // namespace tarn::cluster
