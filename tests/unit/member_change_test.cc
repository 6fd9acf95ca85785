#include "common/cluster/state/member_change.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/cluster/state/coordinator.h"
#include "tests/unit/ownership_fixture.h"

namespace tarn::cluster {
namespace member_change_test {

using Action = MemberChange::Action;
using Catch::Contains;
using nlohmann::json;

Node node(const std::string& id, Role role) {
  Node out;
  out.id = id;
  out.role = role;
  out.public_url = out.internal_url = "http://127.0.0.1:1";
  out.digest = placement_digest(id);
  return out;
}

/// p1 (the primary), p2, and targets t1 to t3.
Smap some_map() {
  Smap map;
  map.version = 10;
  map.primary = "p1";
  for (const char* id : {"p1", "p2"}) map.nodes[id] = node(id, Role::proxy);
  for (const char* id : {"t1", "t2", "t3"}) map.nodes[id] = node(id, Role::target);
  return map;
}

const std::set<std::string> kAll{"p1", "p2", "t1", "t2", "t3"};

MemberChange change(Action action, std::vector<std::string> ids) {
  MemberChange out;
  out.action = action;
  out.ids = std::move(ids);
  return out;
}

Error error_of(const Smap& map, const MemberChange& wanted,
               const std::set<std::string>& live = kAll) {
  const auto next = with_member_change(map, live, wanted);
  REQUIRE_FALSE(next);
  return next.error();
}

/// One coordinator step with these targets live, each with all that the map says in force.
std::optional<Ownership> step(const Ownership& map, const std::vector<std::string>& live,
                              std::uint64_t moved) {
  std::vector<TargetStatus> statuses;
  statuses.reserve(live.size());
  for (const std::string& id : live) statuses.push_back({id, map.version, {}, moved});
  const auto absent = [](const std::string&) { return std::chrono::nanoseconds(0); };
  const auto next = next_step(*state_of(map, map.version, 10, statuses), absent, {});
  return next ? next->publish : std::nullopt;
}

TEST_CASE("AIStore's message about nodes", "[cluster][members]") {
  const auto parsed = parse_member_change(
      Action::decommission,
      json{{"sid", "t1"}, {"sids", {"t2", "t1"}}, {"no_shutdown", true}, {"rm_user_data", false}});
  REQUIRE(parsed);
  CHECK(parsed->ids == std::vector<std::string>{"t2", "t1"});
  CHECK(parsed->no_shutdown);
  CHECK_FALSE(parsed->skip_rebalance);
  for (const json& wrong :
       {json(), json::array(), json::object(), json{{"sid", ""}}, json{{"sids", "t1"}},
        json{{"sids", {1}}}, json{{"sid", "t1"}, {"skip_rebalance", "yes"}}}) {
    CAPTURE(wrong.dump());
    const auto refused = parse_member_change(Action::decommission, wrong);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, Contains("decommission-node: \"value\" must be"));
  }
  CHECK(member_action("rm-unsafe") == Action::remove_unsafe);
  CHECK_FALSE(member_action("shutdown"));
}

TEST_CASE("Maintenance takes names away, and gives them back", "[cluster][members]") {
  const Smap map = some_map();
  const auto aside = with_member_change(map, kAll, change(Action::start_maintenance, {"t1", "p2"}));
  REQUIRE(aside);
  CHECK(aside->version == 11);
  CHECK(aside->nodes.at("t1").flags == kMaintenance);
  CHECK(aside->nodes.at("p2").flags == kMaintenance);
  CHECK(aside->placeable_targets().size() == 2);
  REQUIRE(aside->past.size() == 1);
  CHECK(aside->past.front().nodes.contains("t1"));
  CHECK(aside->rebalance == RebalanceOrder{false, 11});
  CHECK(json(*aside).get<Smap>().rebalance == aside->rebalance);
  CHECK_THAT(error_of(*aside, change(Action::start_maintenance, {"t1"})).message,
             Contains("node t1 is in maintenance already"));
  const auto back = with_member_change(*aside, kAll, change(Action::stop_maintenance, {"t1"}));
  REQUIRE(back);
  CHECK(back->nodes.at("t1").flags == 0);
  CHECK(back->placeable_targets().size() == 3);
  CHECK_THAT(error_of(map, change(Action::stop_maintenance, {"t1"})).message,
             Contains("is not in maintenance"));
}

TEST_CASE("What cannot be done to nodes is refused, all of it", "[cluster][members]") {
  const Smap map = some_map();
  CHECK(error_of(map, change(Action::decommission, {"t1", "tX"})).code == Errc::not_found);
  for (const auto action : {Action::start_maintenance, Action::decommission, Action::remove_unsafe})
    CHECK_THAT(error_of(map, change(action, {"p1"})).message, Contains("is the primary"));
  CHECK_THAT(error_of(map, change(Action::start_maintenance, {"t1", "t2", "t3"})).message,
             Contains("no other target would be left"));
  const std::set<std::string> without_t1{"p1", "p2", "t2", "t3"};
  const Error down = error_of(map, change(Action::decommission, {"t1"}), without_t1);
  CHECK(down.code == Errc::conflict);
  CHECK_THAT(down.message, Contains("target t1 is down"));
  CHECK(with_member_change(map, without_t1, change(Action::start_maintenance, {"t1"})));
  CHECK(with_member_change(map, without_t1, change(Action::remove_unsafe, {"t1"})));
}

TEST_CASE("A target that is decommissioned leaves the map when its names have moved",
          "[cluster][members]") {
  MemberChange wanted = change(Action::decommission, {"t1"});
  wanted.rm_user_data = true;
  const auto map = with_member_change(some_map(), kAll, wanted);
  REQUIRE(map);
  CHECK(map->nodes.at("t1").flags == (kDecommission | kStops | kErases));
  CHECK(moves_names(*map, wanted));
  const Ownership leaving = ownership_of(*map);
  CHECK_FALSE(step(leaving, {"t1", "t2", "t3"}, 0));  // it still holds names
  const auto moved = step(leaving, {"t1", "t2", "t3"}, leaving.version);
  REQUIRE(moved);
  CHECK(moved->past.empty());
  REQUIRE(moved->find("t1"));
  const auto gone = step(*moved, {"t1", "t2", "t3"}, 0);
  REQUIRE(gone);
  CHECK_FALSE(gone->find("t1"));
  CHECK(gone->past.empty());
  // Asked again in time, it stays.
  const auto stays = with_member_change(*map, kAll, change(Action::stop_maintenance, {"t1"}));
  REQUIRE(stays);
  CHECK(stays->nodes.at("t1").flags == 0);
}

TEST_CASE("A target that is given up leaves the map at once, with what it holds",
          "[cluster][members]") {
  MemberChange wanted = change(Action::decommission, {"t1"});
  wanted.skip_rebalance = true;
  for (const MemberChange& each : {wanted, change(Action::remove_unsafe, {"t1"})}) {
    const auto map = with_member_change(some_map(), kAll, each);
    REQUIRE(map);
    CHECK_FALSE(moves_names(*map, each));
    const auto gone = step(ownership_of(*map), {"t1", "t2", "t3"}, 0);
    REQUIRE(gone);
    CHECK_FALSE(gone->find("t1"));
    REQUIRE(gone->past.size() == 1);  // which others look through
    CHECK(gone->past.front().lost == std::vector<std::string>{"t1"});
    // Not before it knows: its status is of the version before.
    const Ownership leaving = ownership_of(*map);
    const auto absent = [](const std::string&) { return std::chrono::nanoseconds(0); };
    std::vector<TargetStatus> statuses;
    for (const char* id : {"t1", "t2", "t3"}) statuses.push_back({id, leaving.version, {}, 0});
    statuses.front().map_version = leaving.version - 1;
    CHECK_FALSE(next_step(*state_of(leaving, leaving.version - 1, 10, statuses), absent, {}));
  }
}

TEST_CASE("A target that was to end in maintenance goes on when it is started again",
          "[cluster][members]") {
  const auto map = with_member_change(some_map(), kAll, change(Action::shutdown, {"t1"}));
  REQUIRE(map);
  CHECK(map->nodes.at("t1").flags == (kMaintenance | kStops));
  const Ownership moving = ownership_of(*map);
  // It died while it still held names: it is to end when it has given them away.
  const auto died = step(moving, {"t2", "t3"}, 0);
  REQUIRE(died);
  CHECK(died->find("t1")->flags == (kMaintenance | kStops | kDown));
  const auto moved = step(moving, {"t1", "t2", "t3"}, moving.version);
  REQUIRE(moved);
  CHECK(moved->find("t1")->flags == (kMaintenance | kStops));
  const auto ended = step(*moved, {"t2", "t3"}, 0);
  REQUIRE(ended);
  CHECK(ended->find("t1")->flags == (kMaintenance | kDown));
}

/// As proxies_that_left(), where all have been without a lease for `absent` unless they are in
/// `live`.
std::vector<std::string> left_proxies(const Smap& map, const ProxyVersions& live,
                                      std::chrono::nanoseconds absent = {}) {
  return proxies_that_left(map, live, [&](const std::string&) { return absent; }, AbsenceLimits());
}

TEST_CASE("Proxies leave when they know it, or are down", "[cluster][members]") {
  MemberChange wanted = change(Action::decommission, {"p2"});
  const auto map = with_member_change(some_map(), kAll, wanted);
  REQUIRE(map);
  CHECK(map->past.empty());
  CHECK(map->rebalance == RebalanceOrder());
  CHECK_FALSE(moves_names(*map, wanted));
  const std::vector<std::string> second{"p2"};
  CHECK(left_proxies(*map, {{"p1", 11}, {"p2", 10}}).empty());
  CHECK(left_proxies(*map, {{"p1", 10}, {"p2", 11}}) == second);
  CHECK(left_proxies(*map, {{"p1", 11}}) == second);
  CHECK(left_proxies(some_map(), {}).empty());
}

TEST_CASE("Proxies that have been down for long are taken out, but for those in maintenance",
          "[cluster][members]") {
  using namespace std::chrono_literals;
  const std::vector<std::string> second{"p2"};
  CHECK(left_proxies(some_map(), {{"p1", 1}}, 899s).empty());
  CHECK(left_proxies(some_map(), {{"p1", 1}}, 900s) == second);
  CHECK(left_proxies(some_map(), {{"p1", 1}, {"p2", 1}}, 900s).empty());
  const auto kept = with_member_change(some_map(), kAll, change(Action::start_maintenance, {"p2"}));
  REQUIRE(kept);
  CHECK(left_proxies(*kept, {{"p1", 1}}, 900s).empty());
}

TEST_CASE("A rebalance is started, and stopped until somebody wants one", "[cluster][members]") {
  const Smap map = some_map();
  CHECK(with_rebalance_stopped(map).version == map.version);
  const Smap started = with_rebalance_started(map);
  CHECK(started.rebalance == RebalanceOrder{false, 11});
  CHECK(with_rebalance_stopped(started).rebalance == RebalanceOrder{false, 0});
  MemberChange wanted = change(Action::start_maintenance, {"t1"});
  const auto moving = with_member_change(map, kAll, wanted);
  REQUIRE(moving);
  const Smap stopped = with_rebalance_stopped(*moving);
  CHECK(stopped.version == 12);
  CHECK(stopped.rebalance == RebalanceOrder{true, 0});
  CHECK(stopped.past.size() == 1);
  CHECK(with_rebalance_started(stopped).rebalance == RebalanceOrder{false, 13});
  wanted.skip_rebalance = true;
  const auto skipped = with_member_change(map, kAll, wanted);
  REQUIRE(skipped);
  CHECK(skipped->rebalance.held);
  const auto back = with_member_change(*skipped, kAll, change(Action::stop_maintenance, {"t1"}));
  REQUIRE(back);
  CHECK_FALSE(back->rebalance.held);
  CHECK(may_move_names(map, "t1", true));
  CHECK_FALSE(may_move_names(map, "t1", false));
  CHECK(may_move_names(started, "t1", false));
  CHECK_FALSE(may_move_names(stopped, "t1", true));
  CHECK(rebalance_id(7) == "g7");
}

}  // namespace member_change_test
}  // namespace tarn::cluster
