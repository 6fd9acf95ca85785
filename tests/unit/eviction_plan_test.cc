// Which objects go when a drive is full, and how many: decisions without a drive and without a
// clock.

#include "target/upstream/eviction_plan.h"

#include <algorithm>
#include <random>
#include <vector>

#include "seed.h"
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/eviction_props.h"
#include "target/drive/space_rules.h"

namespace eviction_plan_test {

using namespace tarn;
using namespace tarn::target;

constexpr std::uint64_t kGib = 1ULL << 30U;

io::Space used(std::uint64_t gib, std::uint64_t of = 100) { return {of * kGib, (of - gib) * kGib}; }

/// The objects of a drive, oldest first, without equal ages.
std::vector<EvictionCandidate> objects(std::mt19937_64& random, std::size_t count) {
  std::vector<EvictionCandidate> out;
  std::uint32_t age = 0;
  for (std::size_t i = 0; i < count; ++i) {
    age += 1 + static_cast<std::uint32_t>(random() % (1 + age / 100));  // below 2^32 after 2,000
    out.push_back({age, 4096 * (1 + random() % 1000), false});
  }
  std::reverse(out.begin(), out.end());
  return out;
}

/// Objects that a plan takes; it sees them in any order.
std::vector<EvictionCandidate> taken(std::vector<EvictionCandidate> all, const EvictionGoal& goal,
                                     std::mt19937_64& random) {
  EvictionPlan plan;
  std::shuffle(all.begin(), all.end(), random);
  for (const auto& each : all) plan.add(each);
  std::vector<EvictionCandidate> out;
  if (!plan.settle(goal)) return out;
  for (const auto& each : all)
    if (plan.take(each)) out.push_back(each);
  return out;
}

std::uint64_t bytes_of(const std::vector<EvictionCandidate>& all) {
  std::uint64_t sum = 0;
  for (const auto& each : all) sum += each.bytes;
  return sum;
}

TEST_CASE("eviction: it begins above the high watermark and ends at the low one", "[eviction]") {
  const SpaceLimits limits;
  const auto goal = [&](std::uint64_t gib, EvictionCause cause = EvictionCause::watermark) {
    return eviction_goal(used(gib), limits, cause);
  };
  CHECK(goal(75).is_empty());
  CHECK(goal(90).is_empty());
  CHECK(goal(91).bytes == 16 * kGib);
  CHECK(goal(91).protected_bytes == 0);
  CHECK(goal(94).protected_bytes == 0);
  CHECK(goal(96).bytes == 21 * kGib);
  CHECK(goal(96).protected_bytes == 6 * kGib);
  CHECK(goal(80, EvictionCause::order).bytes == 5 * kGib);
  CHECK(goal(75, EvictionCause::order).is_empty());
}

TEST_CASE("eviction: a high watermark below the low one counts for both", "[eviction]") {
  SpaceLimits limits;
  limits.high_watermark = 60;
  const auto goal = eviction_goal(used(70), limits, EvictionCause::watermark);
  CHECK(goal.bytes == 10 * kGib);
  CHECK(eviction_goal(used(60), limits, EvictionCause::watermark).is_empty());
}

TEST_CASE("eviction: a write that found no room has it afterwards", "[eviction]") {
  const auto seed = test_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 1000; ++i) {
    SpaceLimits limits;
    limits.low_watermark = 1 + static_cast<double>(random() % 80);
    limits.high_watermark = limits.low_watermark + static_cast<double>(random() % 10);
    limits.out_of_space = limits.high_watermark + static_cast<double>(random() % 10);
    limits.reserve_percent = static_cast<double>(random() % 50);
    const std::uint64_t wanted = random() % (110 * kGib);
    const io::Space now = used(random() % 101);
    INFO("low " << limits.low_watermark << " high " << limits.high_watermark << " out "
                << limits.out_of_space << " reserve " << limits.reserve_percent << " wanted "
                << wanted << " free " << now.free);
    const auto goal = eviction_goal_for(now, limits, wanted);
    const io::Space empty{now.total, now.total};
    if (!has_room(empty, limits, wanted, limits.out_of_space)) {
      CHECK(goal.is_empty());
      continue;
    }
    CHECK(goal.bytes >= goal.protected_bytes);
    CHECK(goal.protected_bytes >= goal.least);
    io::Space after = now;
    after.free += goal.least + 4096;  // the rules round to whole bytes
    CHECK(has_room(after, limits, wanted, limits.out_of_space));
    if (has_room(now, limits, wanted, limits.out_of_space)) CHECK(goal.least <= 1);
  }
}

TEST_CASE("eviction: the least recently used go, as many as are wanted", "[eviction]") {
  const auto seed = test_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    const auto all = objects(random, 20 + random() % 2000);
    EvictionGoal goal;
    goal.bytes = 1 + random() % bytes_of(all);
    const auto gone = taken(all, goal, random);
    const std::uint64_t bytes = bytes_of(gone);
    CHECK(bytes >= goal.bytes);
    CHECK(bytes < goal.bytes + 4096UL * 1001);  // an object too much at most
    std::uint64_t youngest = UINT32_MAX;
    for (const auto& each : gone) youngest = std::min<std::uint64_t>(youngest, each.age);
    // Objects that were kept are younger than all that went, to the precision of the bins.
    for (const auto& each : all) {
      const bool went = std::any_of(gone.begin(), gone.end(),
                                    [&](const auto& one) { return one.age == each.age; });
      if (!went) CHECK(each.age <= youngest + youngest / 32 + 1);
    }
  }
}

TEST_CASE("eviction: protected objects go last, and no more of them than must", "[eviction]") {
  std::mt19937_64 random(1);
  std::vector<EvictionCandidate> all;
  all.reserve(200);
  for (std::uint32_t i = 0; i < 100; ++i) all.push_back({10'000 + i, 1000, false});
  for (std::uint32_t i = 0; i < 100; ++i) all.push_back({i, 1000, true});
  const auto count_of = [&](EvictionGoal goal) {
    const auto gone = taken(all, goal, random);
    const auto kept_back =
        std::count_if(gone.begin(), gone.end(), [](const auto& each) { return each.is_protected; });
    return std::pair(static_cast<std::ptrdiff_t>(gone.size()) - kept_back, kept_back);
  };
  using Counts = std::pair<std::ptrdiff_t, std::ptrdiff_t>;
  CHECK(count_of({50'000, 0, 0}) == Counts(50, 0));
  CHECK(count_of({500'000, 0, 0}) == Counts(100, 0));
  CHECK(count_of({500'000, 90'000, 0}) == Counts(100, 0));
  CHECK(count_of({500'000, 130'000, 0}) == Counts(100, 30));
  CHECK(count_of({500'000, 500'000, 0}) == Counts(100, 100));
  CHECK(count_of({500'000, 500'000, 200'001}) == Counts(0, 0));  // it would not help
  CHECK(count_of({0, 0, 0}) == Counts(0, 0));
}

TEST_CASE("eviction: what was read since the first walk stays", "[eviction]") {
  EvictionPlan plan;
  for (std::uint32_t i = 0; i < 10; ++i) plan.add({1000 + 100 * i, 1000, false});
  REQUIRE(plan.settle({4000, 0, 0}));
  CHECK_FALSE(plan.take({0, 1000, false}));
  CHECK_FALSE(plan.take({0, 1000, true}));
  CHECK(plan.take({1900, 1000, false}));
  CHECK(plan.take({UINT32_MAX, 1000, false}));
}

TEST_CASE("eviction: objects of buckets with an upstream only, and where it is enabled",
          "[eviction]") {
  const api::Bucket cloud{"aws", "", "", "data"};
  const api::Bucket own{"ais", "", "", "data"};
  const auto props = api::with_eviction({});
  CHECK(api::eviction_of(cloud, props).enabled);
  CHECK_FALSE(api::eviction_of(own, props).enabled);
  CHECK_FALSE(api::eviction_of(cloud, {}).enabled);
  CHECK(api::eviction_of(cloud, props).protect == std::chrono::hours(2));
  const auto other = api::with_changes(
      props, nlohmann::json::parse(R"({"lru": {"dont_evict_time": "90s", "enabled": false}})"));
  CHECK(api::eviction_of(cloud, *other).protect == std::chrono::seconds(90));
  CHECK_FALSE(api::eviction_of(cloud, *other).enabled);
}

}  // namespace eviction_plan_test
