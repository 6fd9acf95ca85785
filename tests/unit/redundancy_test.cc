// The redundancy ledger: what targets say of a bucket, put together, and what the metrics show of
// it, and for how long.

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <prometheus/text_serializer.h>

#include "common/api/copy_counts.h"
#include "common/api/first_names.h"
#include "proxy/admin/redundancy_board.h"
#include "proxy/admin/redundancy_tally.h"
#include "proxy/jobs/scrub_ages.h"

namespace redundancy_test {

using namespace tarn;
using namespace tarn::proxy;
using namespace std::chrono_literals;
using nlohmann::json;

using Names = std::set<std::string>;

/// A record as a target tells it; without an entry it is a tombstone.
json record(const std::string& name, std::uint64_t counter, std::uint64_t drives,
            std::uint64_t bytes, bool live = true) {
  const std::vector<std::uint8_t> entry(live ? 3 : 0, 1);
  return json::array({name, json::array({1, 1, counter}), json::binary(entry), drives, bytes});
}

/// The same, with whether the target owns the name.
json owned(const std::string& name, bool is_owner) {
  json out = record(name, 1, 1, 10);
  out.push_back(is_owner);
  return out;
}

/// The answer of a target of which drives are away.
std::string answer_without(const std::vector<json>& records, const api::Uncounted& uncounted) {
  const json out{
      {"records", records}, {"more", false}, {"last", ""}, {"uncounted", json(uncounted)}};
  std::string text;
  json::to_msgpack(out, text);
  return text;
}

std::string answer(const std::vector<json>& records, const std::string& last = "") {
  const json out{{"records", records}, {"more", !last.empty()}, {"last", last}};
  std::string text;
  json::to_msgpack(out, text);
  return text;
}

cluster::ClusterState with_bucket(BucketId id, const std::string& name) {
  cluster::ClusterState state;
  cluster::BucketRecord bucket;
  bucket.id = id;
  bucket.name.name = name;
  state.bmd.buckets.emplace(bucket.name, bucket);
  return state;
}

RedundancyBoard::Counted counted_at(BootTime began) {
  RedundancyBoard::Counted out;
  out.redundancy.counts.add(2, 2, 100);
  out.redundancy.counts.add(1, 2, 7);
  out.redundancy.survives(0, 0);
  out.redundancy.unnamed = {1, 9};
  out.began = began;
  out.verified_ns = std::chrono::nanoseconds(1000s).count();
  return out;
}

std::string shown(const RedundancyBoard& board, const cluster::ClusterState& state, BootTime now) {
  return prometheus::TextSerializer().Serialize(board.gauges(state, now, WallTime(1500s)));
}

TEST_CASE("first names: the first behind a name, and whether there are more", "[api]") {
  api::FirstNames lost("b", 2);
  for (const char* name : {"e", "a", "c", "b"}) lost.add(name);
  CHECK(lost.names() == Names{"c", "e"});
  CHECK_FALSE(lost.more());
  lost.add("d");
  CHECK(lost.names() == Names{"c", "d"});
  CHECK(lost.more());
  const json told = lost;
  CHECK(told == json{{"names", {"c", "d"}}, {"more", true}});
  CHECK(told.get<api::FirstNames>().names() == lost.names());
  api::FirstNames none("", 0);
  none.add("a");
  CHECK(none.names().empty());
  CHECK(none.more());
}

TEST_CASE("first names: behind the last that one target names nothing is known", "[api]") {
  api::FirstNames first("", 2);
  for (const char* name : {"a", "d", "e"}) first.add(name);
  api::FirstNames second("", 2);
  for (const char* name : {"b", "z"}) second.add(name);
  const std::vector<std::pair<api::FirstNames, api::FirstNames>> orders{{first, second},
                                                                        {second, first}};
  for (const auto& [one, other] : orders) {
    api::FirstNames sum("", 10);
    sum.add(json(one).get<api::FirstNames>());
    sum.add(json(other).get<api::FirstNames>());
    CHECK(sum.names() == Names{"a", "b", "d"});  // "e" may lie before "z"
    CHECK(sum.more());
  }
}

TEST_CASE("redundancy: a page counts up to where everybody has said all", "[proxy]") {
  NamePage page;
  REQUIRE(page.take("t1", answer({record("a", 1, 1, 10), record("c", 5, 2, 300)}, "c")));
  REQUIRE(page.take("t2", answer({record("a", 1, 1, 10), record("b", 2, 1, 20),
                                  record("c", 4, 1, 999), record("d", 1, 1, 4000)})));
  CHECK(page.more());
  CHECK(page.last() == "c");
  Redundancy sum;
  sum.wanted = 2;
  add_page(page, {}, sum);
  CHECK(sum.counts.full == 2);  // c: only who has the newest version counts, on both its drives
  CHECK(sum.counts.full_bytes == 310);
  CHECK(sum.counts.at_risk == 1);
  CHECK(sum.counts.at_risk_bytes == 20);
  CHECK(sum.survives_drives == 0U);
  CHECK(sum.survives_nodes == 0U);
  CHECK_FALSE(json(sum).contains("coded"));
}

TEST_CASE("redundancy: copies in one zone survive the loss of none", "[proxy][zones]") {
  const std::map<std::string, std::string> zones{{"t1", "a"}, {"t2", "a"}, {"t3", "b"}};
  NamePage page(zones);
  REQUIRE(page.take("t1", answer({record("a", 1, 1, 10), record("b", 1, 1, 10)})));
  REQUIRE(page.take("t3", answer({record("a", 1, 1, 10), record("b", 1, 1, 10)})));
  Redundancy sum;
  sum.wanted = 2;
  add_page(page, {}, sum);
  CHECK(sum.survives_nodes == 1U);
  CHECK(sum.survives_zones == 1U);
  CHECK(json(sum)["survives_zones"] == 1);
  NamePage together(zones);
  REQUIRE(together.take("t1", answer({record("c", 1, 1, 10)})));
  REQUIRE(together.take("t2", answer({record("c", 1, 1, 10)})));
  api::SliceCounts slices;
  slices.survives_zones = 2;
  CHECK(api::slice_counts_from(api::encode(slices)) == slices);
  add_page(together, slices, sum);
  CHECK(sum.survives_nodes == 1U);
  CHECK(sum.survives_zones == 0U);
  Redundancy plain;
  NamePage without;
  REQUIRE(without.take("t1", answer({record("c", 1, 1, 10)})));
  add_page(without, {}, plain);
  CHECK_FALSE(json(plain).contains("survives_zones"));
}

TEST_CASE("redundancy: what is deleted is not counted, nor what nobody has", "[proxy]") {
  NamePage page;
  CHECK(page.last().empty());
  CHECK_FALSE(page.more());
  REQUIRE(page.take("t1", answer({record("a", 1, 1, 10)})));
  REQUIRE(page.take("t2", answer({record("a", 2, 1, 0, false)})));
  Redundancy sum;
  add_page(page, {}, sum);
  CHECK(sum.counts == api::CopyCounts());
  CHECK_FALSE(sum.survives_drives);
  CHECK(json(sum)["survives_nodes"].is_null());
  CHECK(page.take("t3", "no").error().code == Errc::internal);
}

TEST_CASE("redundancy: of a coded object its copies and its slices count", "[proxy]") {
  NamePage page;
  for (const char* target : {"t1", "t2"})
    REQUIRE(page.take(target, answer({record("full", 1, 1, 1), record("gone", 1, 1, 20),
                                      record("short", 1, 1, 300)})));
  Redundancy sum;
  sum.wanted = 2;
  sum.coded = 0;
  sum.lost = {"", 10};
  const api::SliceCounts slices{3, {{"gone", {0, 0, true}}, {"short", {0, 0, false}}}, 0, 0};
  add_page(page, slices, sum);
  CHECK(sum.counts.full_bytes == 1);
  CHECK(sum.counts.at_risk_bytes == 300);
  CHECK(sum.counts.lost_bytes == 20);
  CHECK(sum.lost.names() == Names{"gone"});
  CHECK(sum.coded == 3U);
  CHECK(sum.survives_drives == 0U);
  const json told = sum;
  CHECK(told["full"] == 1);
  CHECK(told["lost_bytes"] == 20);
  CHECK(told["complete"] == true);
  sum.targets_away = {"t3"};
  CHECK_FALSE(sum.complete());
}

TEST_CASE("redundancy: each number has its names", "[proxy]") {
  const auto listed = [](api::ObjectState state, const std::string& after, std::size_t max) {
    NamePage page;
    REQUIRE(page.take("t1", answer({record("bad", 3, 0, 5), record("gone", 1, 1, 1),
                                    record("one", 1, 1, 1), record("two", 1, 1, 1)})));
    REQUIRE(page.take(
        "t2", answer({record("few", 1, 1, 1), record("gone", 1, 1, 1), record("two", 1, 1, 1)})));
    REQUIRE(page.take(
        "t3", answer({record("few", 1, 1, 1), record("gone", 1, 1, 1), record("two", 1, 1, 1)})));
    Redundancy sum;
    sum.wanted = 3;
    sum.coded = 0;
    sum.list = api::StateList{state, {after, max}};
    const api::SliceCounts slices{1, {{"gone", {0, 0, true}}}, 0, 0};
    add_page(page, slices, sum);
    CHECK(sum.counts.full == 1);
    CHECK(sum.counts.reduced == 2);
    CHECK(sum.counts.at_risk == 1);
    CHECK(sum.counts.lost == 2);
    return sum.list->names;
  };
  using api::ObjectState;
  CHECK(listed(ObjectState::full, "", 10).names() == Names{"two"});
  CHECK(listed(ObjectState::reduced, "", 10).names() == Names{"few", "one"});
  CHECK(listed(ObjectState::at_risk, "", 10).names() == Names{"one"});
  CHECK(listed(ObjectState::lost, "", 10).names() == Names{"bad", "gone"});
  CHECK(listed(ObjectState::lost, "bad", 10).names() == Names{"gone"});
  CHECK(listed(ObjectState::reduced, "", 1).names() == Names{"few"});
  CHECK(listed(ObjectState::reduced, "", 1).more());
  for (const auto state :
       {ObjectState::full, ObjectState::reduced, ObjectState::at_risk, ObjectState::lost})
    CHECK(api::parse_object_state(api::to_string(state)) == state);
  CHECK_FALSE(api::parse_object_state("green"));
}

TEST_CASE("redundancy: a drive that is away makes the counts incomplete while it must", "[proxy]") {
  const auto judged = [](const api::Uncounted& first, const api::Uncounted& second,
                         bool others_show) {
    NamePage page;
    REQUIRE(page.take("t1", answer_without({owned("a", true)}, first)));
    REQUIRE(page.take("t2", answer_without({owned("a", false)}, second)));
    Redundancy sum;
    sum.wanted = 2;
    add_page(page, {}, sum);
    add_page(NamePage(), {}, sum);
    CHECK(sum.counts.full == 1);
    Names asked;
    sum.judge([&](const std::set<std::string>& blind) {
      asked = blind;
      return others_show;
    });
    CHECK(sum.complete() == json(sum)["complete"]);
    return std::tuple(sum.complete(), sum.counts.drives_away, asked);
  };
  const api::Uncounted none;
  CHECK(judged(none, none, false) == std::tuple(true, 0U, Names{}));
  CHECK(judged({2, true, false}, none, true) == std::tuple(true, 2U, Names{"t1"}));
  CHECK(judged({1, true, false}, {1, true, false}, false) ==
        std::tuple(false, 2U, Names{"t1", "t2"}));
  // It may be back with what it has.
  CHECK(judged({1, true, true}, none, true) == std::tuple(false, 1U, Names{}));
  // Its names have copies on other drives of the same target.
  CHECK(judged({1, false, false}, none, true) == std::tuple(true, 1U, Names{}));
  // Files that were gone when a drive was opened matter only while others are away.
  CHECK(judged({0, true, false}, none, false) == std::tuple(true, 0U, Names{}));
  CHECK(judged({0, true, false}, {1, true, false}, false) ==
        std::tuple(false, 1U, Names{"t1", "t2"}));
}

TEST_CASE("redundancy: nobody counts the slices where the owner lacks the record", "[proxy]") {
  const auto counted = [](const api::Uncounted& uncounted, bool coded) {
    NamePage page;
    for (const char* target : {"t2", "t3"})
      REQUIRE(page.take(target, answer_without({owned("a", false)}, {})));
    REQUIRE(page.take("t1", answer_without({}, uncounted)));
    Redundancy sum;
    sum.wanted = 2;
    if (coded) sum.coded = 0;
    add_page(page, {}, sum);
    return sum;
  };
  const Redundancy away = counted({1, true, false}, true);
  CHECK(away.counts.full == 0);
  CHECK(away.counts.at_risk == 1);
  CHECK(away.counts.by_copies == std::map<std::uint64_t, std::uint64_t>{{1, 1}});
  CHECK(away.survives_drives == 0U);
  // A move under way, or plain copies.
  CHECK(counted({}, true).counts.full == 1);
  CHECK(counted({1, true, false}, false).counts.full == 1);
}

TEST_CASE("redundancy: a drive that goes between records and slices is noticed", "[proxy]") {
  for (const std::uint64_t away : {0U, 1U}) {
    NamePage page;
    REQUIRE(page.take("t1", answer_without({owned("a", true)}, {})));
    Redundancy sum;
    sum.coded = 0;
    api::SliceCounts slices;
    slices.drives_away = away;
    slices.unnamed = {3, 3000};
    slices.unjudged = {1, 10};
    add_page(page, slices, sum);
    CHECK(sum.complete() == (away == 0));
    add_page(NamePage(), slices, sum);
    CHECK(json(sum)["unnamed_pieces"] == 6);
    CHECK(json(sum)["unnamed_bytes"] == 6000);
    CHECK(json(sum)["unjudged_bytes"] == 20);
    CHECK(api::slice_counts_from(encode(slices)).value() == slices);
  }
}

TEST_CASE("redundancy: a copy that is known to be bad is none", "[proxy]") {
  NamePage page;
  REQUIRE(page.take(
      "t1", answer({record("gone", 3, 0, 70), record("half", 3, 0, 5), record("old", 3, 0, 900)})));
  REQUIRE(page.take("t2", answer({record("half", 3, 1, 5), record("old", 2, 1, 100)})));
  Redundancy sum;
  sum.wanted = 2;
  sum.lost = {"", 10};
  add_page(page, {}, sum);
  CHECK(sum.counts.full == 0);
  CHECK(sum.counts.at_risk == 1);
  CHECK(sum.counts.lost == 2);  // an older version elsewhere is none of these bytes
  CHECK(sum.counts.lost_bytes == 970);
  CHECK(sum.lost.names() == Names{"gone", "old"});
  CHECK(sum.survives_drives == 0U);
}

TEST_CASE("redundancy: copies on drives count while some drives are away", "[api]") {
  api::CountedCopies counted;
  counted.counts.drives_away = 1;
  CHECK(json(counted).get<api::CountedCopies>().all_seen);
  counted.all_seen = false;
  CHECK_FALSE(json(counted).get<api::CountedCopies>().all_seen);
  json old = counted;
  old.erase("all_seen");
  CHECK_FALSE(old.get<api::CountedCopies>().all_seen);
  old["drives_away"] = 0;
  CHECK(old.get<api::CountedCopies>().all_seen);
  CHECK_FALSE(old.get<api::CountedCopies>().list);
  old.erase("lost_names");
  CHECK(old.get<api::CountedCopies>().lost == api::FirstNames());
  counted.list.emplace("", 1);
  for (const char* name : {"a", "b"}) counted.list->add(name);
  counted.lost.add("c");
  const auto read = json(counted).get<api::CountedCopies>();
  CHECK(read.list->names() == Names{"a"});
  CHECK(read.list->more());
  CHECK(read.lost.names() == Names{"c"});
}

TEST_CASE("redundancy: targets of before say neither drives nor sizes", "[proxy]") {
  json old = record("a", 1, 1, 10);
  old.erase(4);
  old.erase(3);
  NamePage page;
  REQUIRE(page.take("t1", answer({old})));
  CHECK(page.names().at("a").drives == 1);
  CHECK(page.names().at("a").bytes == 0);
}

TEST_CASE("scrub ages: a bucket that the present pass has behind it is as old as that", "[proxy]") {
  const json one{{"running", true},
                 {"at_bucket", 5},
                 {"began_ns", 900},
                 {"first_ns", 10},
                 {"verified_ns", 400}};
  json targets{{"t1", {{"drives", {{"/d1", one}}}}}};
  CHECK(oldest_verified(targets, 1000) == 400);
  CHECK(oldest_verified(targets, BucketId{4}, 1000) == 900);
  CHECK(oldest_verified(targets, BucketId{5}, 1000) == 400);
  json fresh = one;
  fresh["verified_ns"] = 0;
  targets["t2"] = {{"drives", {{"/d1", fresh}}}};
  CHECK_FALSE(oldest_verified(targets, 1000));
  CHECK(oldest_verified(targets, BucketId{4}, 1000) == 900);
  CHECK_FALSE(oldest_verified(targets, BucketId{6}, 1000));
  CHECK(unverified_since(targets, BucketId{6}, 1000) == 10);
  targets["t3"] = {{"error", "away"}};
  CHECK_FALSE(oldest_verified(targets, BucketId{4}, 1000));
  CHECK_FALSE(unverified_since(targets, BucketId{4}, 1000));
  CHECK(oldest_verified(json::object(), 1000) == 1000);
}

TEST_CASE("redundancy board: shows what was counted", "[proxy]") {
  RedundancyBoard board;
  const auto state = with_bucket(BucketId{7}, "pictures");
  board.round_begins(BootTime(100s), 60s);
  CHECK(shown(board, state, BootTime(100s)).empty());
  board.put(BucketId{7}, counted_at(BootTime(100s)));
  board.put(BucketId{8}, counted_at(BootTime(100s)));  // destroyed meanwhile
  const std::string text = shown(board, state, BootTime(130s));
  const auto has = [&](const std::string& line) {
    INFO(text);
    CHECK(text.find(line + "\n") != std::string::npos);
  };
  has(R"(tarn_bucket_objects{bucket="ais://pictures",state="full"} 1)");
  has(R"(tarn_bucket_objects{bucket="ais://pictures",state="at_risk"} 1)");
  has(R"(tarn_bucket_bytes{bucket="ais://pictures",state="full"} 100)");
  has(R"(tarn_bucket_unnamed_bytes{bucket="ais://pictures"} 9)");
  has(R"(tarn_bucket_bytes{bucket="ais://pictures",state="reduced"} 7)");
  has(R"(tarn_bucket_objects{bucket="ais://pictures",state="lost"} 0)");
  has(R"(tarn_bucket_survives_drives{bucket="ais://pictures"} 0)");
  has(R"(tarn_bucket_survives_nodes{bucket="ais://pictures"} 0)");
  has(R"(tarn_bucket_counted_whole{bucket="ais://pictures"} 1)");
  has(R"(tarn_bucket_counted_seconds{bucket="ais://pictures"} 30)");
  has(R"(tarn_bucket_oldest_verified_seconds{bucket="ais://pictures"} 500)");
  CHECK(text.find("TYPE tarn_bucket_objects gauge") != std::string::npos);
}

TEST_CASE("redundancy board: shows nothing that may be wrong by now", "[proxy]") {
  RedundancyBoard board;
  const BucketId id{7};
  const auto state = with_bucket(id, "pictures");
  const auto shows = [&](BootTime now) { return !shown(board, state, now).empty(); };
  board.round_begins(BootTime(100s), 60s);
  board.put(id, counted_at(BootTime(100s)));
  CHECK(shows(BootTime(101s)));
  SECTION("a count that failed") {
    board.drop(id);
    CHECK_FALSE(shows(BootTime(101s)));
  }
  SECTION("another one leads") {
    board.clear();
    CHECK_FALSE(shows(BootTime(101s)));
  }
  SECTION("a first round of an hour") { CHECK(shows(BootTime(3700s))); }
  SECTION("nobody has counted for three rounds") {
    board.round_ends(BootTime(110s));
    CHECK(shows(BootTime(310s)));
    CHECK_FALSE(shows(BootTime(311s)));
    board.round_begins(BootTime(400s), 60s);
    CHECK_FALSE(shows(BootTime(401s)));
  }
}

}  // namespace redundancy_test
