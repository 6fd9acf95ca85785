// Rules of a safe stop: the cluster map, and objects that would be unreadable.

#include "proxy/admin/stop_rules.h"

#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/bucket_props.h"
#include "proxy/admin/redundancy_tally.h"
#include "tests/unit/ownership_fixture.h"

namespace stop_rules_test {

using namespace tarn;
using namespace tarn::proxy;
using nlohmann::json;

using Ids = std::set<std::string>;

/// Two proxies and these targets, all up.
cluster::ClusterState cluster_of(const std::vector<std::string>& targets) {
  cluster::ClusterState state;
  const auto add = [&](const std::string& id, cluster::Role role) {
    cluster::Node node;
    node.id = id;
    node.role = role;
    node.digest = cluster::placement_digest(id);
    state.map.nodes.emplace(id, node);
    state.live.insert(id);
  };
  for (const char* id : {"p1", "p2"}) add(id, cluster::Role::proxy);
  for (const std::string& id : targets) add(id, cluster::Role::target);
  state.map.version = 9;
  return state;
}

BucketId add_bucket(cluster::ClusterState& state, const std::string& name, const json& props) {
  cluster::BucketRecord bucket;
  bucket.id = BucketId{state.bmd.buckets.size() + 1};
  bucket.name.name = name;
  const auto its = api::with_changes({}, props);
  INFO((its ? "" : its.error().message));
  REQUIRE(its);
  bucket.props = *its;
  state.bmd.buckets.emplace(bucket.name, bucket);
  return bucket.id;
}

json copies(int number, const char* durability = "full") {
  return {{"mirror", {{"enabled", true}, {"copies", number}, {"domain", "node"}}},
          {"durability", durability}};
}

json coded(int k, int m) {
  return {{"ec",
           {{"enabled", true},
            {"data_slices", k},
            {"parity_slices", m},
            {"objsize_limit", 0},
            {"layout", "striped"}}}};
}

struct Judged {
  StopAnswer answer;
  StopCounts counts;
};
Judged judge(const cluster::ClusterState& state, Ids stops, Ids silent = {}) {
  Judged out;
  out.counts = judge_map({state, std::move(stops), std::move(silent)}, out.answer);
  return out;
}

void put_down(cluster::ClusterState& state, const std::string& id) {
  state.live.erase(id);
  state.map.nodes.at(id).flags |= cluster::kDown;
}

/// Names that the targets t1 and t2 owned until now may still have to be handed over.
void add_past(cluster::ClusterState& state, const std::vector<std::string>& ids) {
  cluster::PastEpoch past;
  past.last = state.map.version - 1;
  for (const auto& id : ids) past.nodes.add(id, cluster::placement_digest(id), 1.0, 1);
  state.map.past.push_back(past);
}

bool mentions(const std::vector<std::string>& lines, const std::string& text) {
  for (const auto& line : lines)
    if (line.find(text) != std::string::npos) return true;
  return false;
}

json stop_record(const std::string& name, std::uint64_t drives, bool is_owner = true) {
  return json::array({name, json::array({1, 1, 1}), json::binary({1}), drives, 10, is_owner});
}

void stop_take(NamePage& page, const std::string& target, const std::vector<json>& records,
               std::uint64_t drives_away = 0) {
  api::Uncounted uncounted;
  uncounted.drives = drives_away;
  std::string text;
  json::to_msgpack({{"records", records}, {"more", false}, {"last", ""}, {"uncounted", uncounted}},
                   text);
  REQUIRE(page.take(target, text));
}

TEST_CASE("stop rules: what a bucket survives decides what is counted", "[proxy]") {
  auto state = cluster_of({"t1", "t2", "t3"});
  const auto one = add_bucket(state, "one", json::object());
  const auto two = add_bucket(state, "two", copies(2));
  const auto slices = add_bucket(state, "slices", coded(2, 1));
  const auto on_drives =
      add_bucket(state, "drives", {{"mirror", {{"enabled", true}, {"copies", 2}}}});
  const Judged all = judge(state, {"t1"});
  CHECK(all.answer.safe());
  CHECK(all.answer.notes.empty());
  CHECK(Ids{"t1"} == all.answer.nodes);
  CHECK(all.counts.redundant == std::vector{slices, two});
  CHECK(all.counts.single == std::vector{on_drives, one});
  CHECK(json(all.answer) == json{{"safe", true},
                                 {"nodes", {"t1"}},
                                 {"reasons", json::array()},
                                 {"notes", json::array()}});
}

TEST_CASE("stop rules: a bucket that never survives a target is a note", "[proxy]") {
  auto state = cluster_of({"t1", "t2"});
  add_bucket(state, "slices", coded(2, 1));
  const Judged few = judge(state, {"t1"});
  CHECK(few.answer.safe());
  CHECK(mentions(few.answer.notes, "slices survives the loss of no target"));
  CHECK(few.counts.redundant.empty());

  auto alone = cluster_of({"t1"});
  const auto two = add_bucket(alone, "two", copies(2));
  const Judged only = judge(alone, {"t1"});
  CHECK(only.answer.safe());
  CHECK(mentions(only.answer.notes, "bucket two could not be written: a write needs 1 targets"));
  CHECK(only.counts.single == std::vector{two});
}

TEST_CASE("stop rules: writes that need more targets than would be up", "[proxy]") {
  auto state = cluster_of({"t1", "t2", "t3", "t4"});
  add_bucket(state, "strict", copies(3, "strict"));
  CHECK(judge(state, {"t1"}).answer.safe());
  const Judged both = judge(state, {"t1", "t2"});
  CHECK(mentions(both.answer.reasons, "bucket strict could not be written: a write needs 3"));
  put_down(state, "t4");
  CHECK_FALSE(judge(state, {"t1"}).answer.safe());

  auto three = cluster_of({"t1", "t2", "t3"});
  add_bucket(three, "strict", copies(3, "strict"));
  const Judged always = judge(three, {"t1"});
  CHECK(always.answer.safe());
  CHECK(mentions(always.answer.notes, "bucket strict could not be written"));
}

TEST_CASE("stop rules: a target that is silent has not been replaced yet", "[proxy]") {
  auto state = cluster_of({"t1", "t2", "t3"});
  add_bucket(state, "two", copies(2));
  CHECK(mentions(judge(state, {"t1"}, {"t2"}).answer.reasons, "target t2 does not answer"));
  CHECK(judge(state, {"t1", "t2"}, {"t2"}).answer.safe());
  put_down(state, "t2");
  CHECK(judge(state, {"t1"}, {"t2"}).answer.safe());
  const StopCase stop{state, {"t1"}, {"t2"}};
  CHECK(other_targets_away(stop) == std::vector<std::string>{"t2"});
  StopAnswer answer;
  add_unreadable(stop, state.bmd.buckets.begin()->first, 2, "a\nb", answer);
  CHECK_FALSE(answer.safe());
  CHECK(mentions(answer.reasons, "2 objects would be unreadable, such as a\\x0ab"));
  CHECK(mentions(answer.reasons, "while t2 is away"));
}

TEST_CASE("stop rules: names that are handed over need their past replicas", "[proxy]") {
  auto state = cluster_of({"t1", "t2", "t3"});
  add_bucket(state, "two", copies(2));
  add_past(state, {"t1", "t2"});
  CHECK(judge(state, {"t1"}).answer.safe());  // the other one of each name's replicas tells
  CHECK(mentions(judge(state, {"t1", "t2"}).answer.reasons, "bucket two are still handed over"));
  put_down(state, "t2");
  const Judged other = judge(state, {"t1"});
  CHECK(mentions(other.answer.reasons, "this target may be all that has them while t2 is away"));
  CHECK(judge(state, {"t3"}).answer.safe());

  auto single = cluster_of({"t1", "t2", "t3"});
  add_bucket(single, "one", json::object());
  CHECK(judge(single, {"t1"}).answer.safe());
  add_past(single, {"t1", "t2"});
  CHECK(mentions(judge(single, {"t1"}).answer.reasons, "tarn cluster rebalance show"));
  // Its names are away already without the target that is down.
  put_down(single, "t2");
  CHECK(judge(single, {"t1"}).answer.safe());
}

TEST_CASE("stop rules: proxies need another proxy", "[proxy]") {
  auto state = cluster_of({"t1"});
  CHECK(judge(state, {"p1"}).answer.safe());
  CHECK(mentions(judge(state, {"p1", "p2"}).answer.reasons, "no other proxy is up"));
  state.live.erase("p2");
  CHECK_FALSE(judge(state, {"p1"}).answer.safe());
  CHECK(judge(state, {"t1"}).answer.safe());
  state.map.nodes.erase("p2");
  const Judged only = judge(state, {"p1"});
  CHECK(only.answer.safe());
  CHECK(mentions(only.answer.notes, "one proxy"));
  CHECK(only.counts.single.empty());
}

TEST_CASE("stop rules: an object is unreadable when what is left of it is too little", "[proxy]") {
  NamePage page({}, Ids{"t1"});
  stop_take(page, "t1",
            {stop_record("alone", 1), stop_record("bad-elsewhere", 1), stop_record("both", 1),
             stop_record("gone", 1), stop_record("nowhere", 0), stop_record("slices", 1)});
  stop_take(page, "t2",
            {stop_record("bad-elsewhere", 0), stop_record("both", 1), stop_record("gone", 1),
             stop_record("nowhere", 0), stop_record("other", 1), stop_record("slices", 1)});
  CHECK(unreadable_names(page, false, {}) == Ids{"alone", "bad-elsewhere"});
  api::SliceCounts slices;
  slices.incomplete["gone"] = {0, 0, true};
  slices.unreadable = {"gone", "slices"};
  CHECK(unreadable_names(page, true, slices) == Ids{"alone", "bad-elsewhere", "slices"});
  const auto copy = api::slice_counts_from(api::encode(slices));
  REQUIRE(copy);
  CHECK(copy->unreadable == slices.unreadable);
}

TEST_CASE("stop rules: slices that were counted by no target do not count as there", "[proxy]") {
  NamePage page({}, Ids{"t1"});
  stop_take(page, "t2", {stop_record("a", 1, false), stop_record("b", 1, true)}, 1);
  stop_take(page, "t3", {stop_record("a", 1, false), stop_record("b", 1, false)});
  CHECK(unreadable_names(page, true, {}) == Ids{"a"});
  CHECK(unreadable_names(page, false, {}).empty());
}

}  // namespace stop_rules_test
