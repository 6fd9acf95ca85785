#include "target/store/mirror_plan.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/copy_counts.h"
#include "target/store/mirror_ledger.h"

namespace tarn::target {
namespace mirror_plan_test {

using Kind = CopyVerdict::Kind;

Generation at(std::uint64_t counter) { return {1, 1, counter}; }
CopyView none() { return {}; }
CopyView has(std::uint64_t counter) { return {Standing::good, {{at(counter), true}}, true}; }
CopyView deleted(std::uint64_t counter) { return {Standing::good, {{at(counter), false}}, true}; }
CopyView stale(std::uint64_t counter) { return {Standing::stale, {{at(counter), true}}, true}; }
CopyView away() { return {Standing::away, std::nullopt, false}; }

using Places = std::vector<std::size_t>;

TEST_CASE("mirror: the newest version that a drive in good standing has counts", "[mirror]") {
  const auto verdict = judge_copies({has(3), none(), has(5), stale(4), has(5)}, 0);
  CHECK(verdict.kind == Kind::found);
  CHECK(verdict.newest == at(5));
  CHECK(verdict.holders == Places{2, 4});
  CHECK(verdict.older == Places{0, 3});
  // One good answer is enough, whichever drives are away.
  CHECK(judge_copies({has(5), away(), away()}, 0).kind == Kind::found);
  CHECK(judge_copies({deleted(6), has(5), away()}, 0).kind == Kind::none);
  CHECK(judge_copies({deleted(6), has(5), away()}, 0).older == Places{1});
}

TEST_CASE("mirror: a drive that was away is not believed while another one is away", "[mirror]") {
  CHECK(judge_copies({stale(4), away()}, 0).kind == Kind::unavailable);
  CHECK(judge_copies({stale(4), none()}, 0).kind == Kind::found);
  CHECK(judge_copies({stale(4), has(4), away()}, 0).kind == Kind::found);
  // It may have what a crash left of a later write, which no reader has seen.
  const auto later = judge_copies({stale(5), has(4)}, 0);
  CHECK(later.kind == Kind::found);
  CHECK(later.newest == at(5));
  CHECK(later.older == Places{1});
  CHECK(judge_copies({stale(5), has(4), away()}, 0).kind == Kind::unavailable);
}

TEST_CASE("mirror: a name that is nowhere may lie on a drive that is away", "[mirror]") {
  CHECK(judge_copies({}, 0).kind == Kind::none);
  CHECK(judge_copies({none(), none()}, 0).kind == Kind::none);
  CHECK(judge_copies({none(), away()}, 0).kind == Kind::unavailable);
  CHECK(judge_copies({deleted(2), away()}, 0).kind == Kind::none);
}

TEST_CASE("mirror: a name that is nowhere is not on fewer drives than it would have copies",
          "[mirror]") {
  CHECK(judge_copies({none(), away()}, 1).kind == Kind::unavailable);
  CHECK(judge_copies({none(), away()}, 2).kind == Kind::none);
  CHECK(judge_copies({away(), none(), away()}, 2).kind == Kind::unavailable);
  CHECK(judge_copies({away(), none(), away()}, 3).kind == Kind::none);
  // A change that a drive missed is another matter.
  CHECK(judge_copies({stale(4), away()}, 2).kind == Kind::unavailable);
}

CopyPlan plan(const CopyViews& views, std::size_t wanted) {
  return plan_copies(views, judge_copies(views, 0), wanted);
}

TEST_CASE("mirror: copies are added where placement prefers, and stay where they are", "[mirror]") {
  CHECK(plan({has(1), none(), none()}, 2).add == Places{1});
  CHECK(plan({none(), none(), has(1)}, 2).add == Places{0});
  CHECK(plan({none(), has(1), has(1)}, 2).add.empty());
  CHECK(plan({away(), has(1), none()}, 2).add == Places{2});
  CopyView full = none();
  full.takes = false;
  const auto short_of = plan({has(1), full, away()}, 3);
  CHECK(short_of.add.empty());
  CHECK(short_of.missing == 2);
  // A drive with an older version takes the newest.
  CHECK(plan({has(1), has(2), none()}, 2).add == Places{0});
}

TEST_CASE("mirror: of too many copies those on the least preferred drives go", "[mirror]") {
  CHECK(plan({has(1), has(1), has(1)}, 1).remove == Places{2, 1});
  CHECK(plan({has(1), has(1), has(1)}, 2).remove == Places{2});
  CHECK(plan({has(1), none(), has(1)}, 2).remove.empty());
  CHECK(plan({deleted(1), deleted(1)}, 1).remove.empty());
}

TEST_CASE("mirror: what lies on a drive that is being emptied does not count", "[mirror]") {
  CopyView leaves = has(1);
  leaves.leaves = true;
  leaves.takes = false;
  CHECK(plan({has(1), leaves, none()}, 2).add == Places{2});
  CHECK(plan({has(1), leaves, none()}, 2).remove.empty());  // the new one comes first
  CHECK(plan({has(1), leaves, has(1)}, 2).remove == Places{1});
  CHECK(plan({none(), leaves}, 1).add == Places{0});
  // Better there than nowhere.
  CHECK(plan({has(1), leaves}, 2).remove.empty());
  CHECK(plan({has(1), leaves}, 2).missing == 1);
}

TEST_CASE("mirror: a write needs all copies but one, at least one", "[mirror]") {
  CHECK(copies_required(1) == 1);
  CHECK(copies_required(2) == 1);
  CHECK(copies_required(3) == 2);
}

TEST_CASE("mirror: what is remembered of drives can be read again", "[mirror]") {
  MirrorLedger ledger;
  ledger.stale = {"a", "b"};
  ledger.stale_single = {"d"};
  ledger.misplaced = {"a", "e"};
  CHECK(MirrorLedger::parse(ledger.json()).value() == ledger);
  MirrorLedger other;
  other.stale = {"c"};
  other.stale_single = {"a"};
  other.misplaced = {"b"};
  ledger.add(other);
  CHECK(ledger.stale_single == std::set<std::string>{"a", "d"});
  CHECK(ledger.misplaced == std::set<std::string>{"a", "b", "e"});
  CHECK(MirrorLedger::parse(R"({"format": 1, "behind": ["a"]})").value().stale_single.empty());
  CHECK(MirrorLedger::parse(R"({"format": 1, "behind": ["a"]})").value().misplaced.empty());
  CHECK(ledger.stale == std::set<std::string>{"a", "b", "c"});
  ledger.complete = {{BucketId{7}, 2}, {BucketId{8}, 3}, {BucketId{9}, 2}};
  CHECK(MirrorLedger::parse(ledger.json()).value() == ledger);
  CHECK(MirrorLedger::parse(R"({"format": 1, "behind": [], "complete": {"x": 2}})").error().code ==
        Errc::corrupt);
  other.complete = {{BucketId{7}, 3}, {BucketId{8}, 2}, {BucketId{10}, 2}};
  ledger.agree(other);
  CHECK(ledger.complete == std::map<BucketId, std::uint8_t>{{BucketId{7}, 2}, {BucketId{8}, 2}});
  ledger.evicted = {{"a", {{BucketId{7}, {4, 17, 2}}}}};
  CHECK(MirrorLedger::parse(ledger.json()).value() == ledger);
  other.evicted = {{"a", {{BucketId{7}, {4, 17, 1}}, {BucketId{8}, {5, 1, 1}}}},
                   {"b", {{BucketId{7}, {1, 1, 1}}}}};
  ledger.add(other);
  CHECK(ledger.evicted.at("a") ==
        EvictedBuckets{{BucketId{7}, {4, 17, 2}}, {BucketId{8}, {5, 1, 1}}});
  CHECK(ledger.evicted.at("b") == EvictedBuckets{{BucketId{7}, {1, 1, 1}}});
  CHECK(MirrorLedger::parse("{").error().code == Errc::corrupt);
  CHECK(MirrorLedger::parse(R"({"format": 2, "behind": []})").error().code == Errc::corrupt);
}

TEST_CASE("mirror: copies are counted", "[mirror]") {
  api::CopyCounts counts;
  CHECK_FALSE(counts.survives());
  counts.add(2, 2, 10);
  counts.add(3, 2, 200);
  CHECK(counts.survives() == 1U);
  counts.add(1, 2, 3000);
  counts.add(2, 3, 40'000);
  CHECK(counts.full == 2);
  CHECK(counts.reduced == 2);
  CHECK(counts.at_risk == 1);
  CHECK(counts.by_copies == std::map<std::uint64_t, std::uint64_t>{{1, 1}, {2, 2}, {3, 1}});
  CHECK(counts.full_bytes == 210);
  CHECK(counts.reduced_bytes == 43'000);
  CHECK(counts.at_risk_bytes == 3000);
  CHECK(counts.survives() == 0U);
  CHECK(nlohmann::json(counts).get<api::CopyCounts>() == counts);
}

}  // namespace mirror_plan_test
}  // namespace tarn::target
