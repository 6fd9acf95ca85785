#include "common/cluster/place/hrw.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "common/cluster/state/state.h"

namespace tarn::cluster {
namespace hrw_test {

// Computed with an independent implementation.
const std::vector<std::string> kTargets{"tgtAAAA1", "tgtBBBB2", "tgtCCCC3", "tgtDDDD4"};
const std::vector<std::string> kMountpaths{"/srv/store/d1", "/srv/store/d2", "/srv/store/d3"};

std::vector<Candidate> candidates(const std::vector<std::string>& names) {
  std::vector<Candidate> out;
  out.reserve(names.size());
  for (const std::string& name : names) out.push_back({placement_digest(name), 1.0});
  return out;
}

std::vector<Candidate> numbered(int count) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) names.push_back("target" + std::to_string(1000 + i));
  return candidates(names);
}

std::string letters(const std::vector<std::size_t>& order) {
  std::string out;
  for (const std::size_t index : order) out += static_cast<char>('A' + index);
  return out;
}

std::uint64_t name_digest(std::size_t i) {
  return placement_digest("ais/@#/data/shard-" + std::to_string(i) + ".tar");
}

struct Vector {
  const char* uname;
  std::uint64_t digest;
  const char* targets;
  std::size_t mountpath;
};
constexpr Vector kVectors[] = {
    {"ais/@#/photos/cat.jpg", 6599695669173290897U, "CBAD", 2},
    {"ais/@#/photos/dir/sub/shard-000123.tar", 15653792662101308046U, "BCDA", 3},
    {"aws/@#/imagenet/train/0001.jpg", 703142892239996863U, "CADB", 3},
    {"ais/@#blue/photos/cat.jpg", 1548394081556769962U, "BDAC", 2},
    {"ais/@rmt1#/photos/cat.jpg", 10417717059378126940U, "BDCA", 1},
    {"ais/@rmt1#blue/photos/cat.jpg", 7444977698989366936U, "CABD", 3},
    {"ais/@#/photos/你好.txt", 16889090459040380739U, "CBAD", 2},
    {"gcp/@#/b/%25", 269159631926014877U, "DCAB", 1},
};

TEST_CASE("HRW: digests and the mixing function are AIStore's", "[cluster][hrw]") {
  CHECK(placement_mix(0) == 1905207664160064169U);
  CHECK(placement_mix(1) == 14233695028433725123U);
  CHECK(placement_mix(4573842) == 5026071747115404967U);
  CHECK(placement_mix(~0ULL) == 10227601306713020730U);
  CHECK(placement_digest("") == 12295767445558623539U);
  CHECK(placement_digest("tgtAAAA1") == 4201887573318566439U);
  CHECK(placement_digest("tgtBBBB2") == 11958113081091981865U);
  CHECK(placement_digest("tgtCCCC3") == 4000975118068598777U);
  CHECK(placement_digest("tgtDDDD4") == 7741213500244828884U);
  CHECK(placement_digest("prxAAAA1") == 5685102630560497674U);
  CHECK(placement_digest("prxBBBB2") == 1834456980337395147U);
  CHECK(placement_digest("prxCCCC3") == 14241653577166960193U);
  CHECK(placement_digest("/srv/store/d1") == 3214427598829339650U);
  CHECK(placement_digest("/srv/store/d2") == 17364610695545826991U);
  CHECK(placement_digest("/srv/store/d3") == 4962108021595676093U);
}

TEST_CASE("HRW: names lie on AIStore's targets and mountpaths", "[cluster][hrw]") {
  const auto targets = candidates(kTargets);
  const auto mountpaths = candidates(kMountpaths);
  for (const Vector& vector : kVectors) {
    INFO(vector.uname);
    CHECK(placement_digest(vector.uname) == vector.digest);
    CHECK(letters(placement_order(targets, vector.digest)) == vector.targets);
    CHECK(placement_first(mountpaths, vector.digest) + 1 == vector.mountpath);
  }
  const auto task = placement_digest("k9-Xq2LmZ");
  CHECK(task == 10850385718070597126U);
  CHECK(placement_first(targets, task) == 0);
}

TEST_CASE("HRW: scores are AIStore's", "[cluster][hrw]") {
  const auto score = [](const char* owner, std::uint64_t digest) {
    return placement_mix(placement_digest(owner) ^ digest);
  };
  constexpr std::array<std::array<std::uint64_t, 4>, 3> kScores{
      {{10930627909489371202U, 11402978946057960021U, 12831679435636080923U, 57473201496895219U},
       {7777716435451415128U, 17709654605584246273U, 15598294164098046188U, 12050251637463889733U},
       {14075398115667996394U, 840390659201721681U, 16991074238064976938U, 8319383737396992382U}}};
  for (std::size_t name = 0; name < kScores.size(); ++name)
    for (std::size_t target = 0; target < 4; ++target)
      CHECK(score(kTargets[target].c_str(), kVectors[name].digest) == kScores[name][target]);
  CHECK(score("/srv/store/d1", kVectors[0].digest) == 11293447567535033874U);
  CHECK(score("/srv/store/d2", kVectors[0].digest) == 15682900923884719588U);
  CHECK(score("/srv/store/d3", kVectors[0].digest) == 3693553971027439411U);
}

TEST_CASE("HRW: a target in maintenance passes its names to the second", "[cluster][hrw]") {
  Smap map;
  for (const std::string& id : kTargets) {
    Node node;
    node.id = id;
    node.digest = placement_digest(id);
    map.nodes[id] = node;
  }
  CHECK(owner_of(map, "ais/@#/photos/cat.jpg")->id == "tgtCCCC3");
  map.nodes["tgtCCCC3"].flags = 4;
  CHECK(owner_of(map, "ais/@#/photos/cat.jpg")->id == "tgtBBBB2");
  map.nodes["tgtBBBB2"].flags = 8;
  CHECK(owner_of(map, "ais/@#/photos/cat.jpg")->id == "tgtAAAA1");
  CHECK(owner_of(Smap{}, "ais/@#/photos/cat.jpg") == nullptr);
}

TEST_CASE("HRW: a million names spread evenly over ten targets", "[cluster][hrw]") {
  constexpr std::size_t kNames = 1'000'000;
  const auto targets = numbered(10);
  std::vector<std::size_t> counts(targets.size());
  for (std::size_t i = 0; i < kNames; ++i) ++counts[placement_first(targets, name_digest(i))];
  const double mean = static_cast<double>(kNames) / static_cast<double>(targets.size());
  const auto most = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  INFO("max/mean " << most / mean);
  CHECK(most / mean <= 1.02);
}

TEST_CASE("HRW: joining moves names to the new target only, leaving those of the old one only",
          "[cluster][hrw]") {
  constexpr std::size_t kNames = 1'000'000;
  const auto before = numbered(10);
  const auto after = numbered(11);
  std::size_t moved = 0;
  std::size_t between_others = 0;
  for (std::size_t i = 0; i < kNames; ++i) {
    const auto digest = name_digest(i);
    const std::size_t had = placement_first(before, digest);
    const std::size_t has = placement_first(after, digest);
    if (had == has) continue;
    ++moved;
    if (has != 10) ++between_others;
  }
  INFO("moved " << moved);
  CHECK(between_others == 0);
  // Seen backwards it is the leave of the eleventh.
  CHECK(static_cast<double>(moved) <= 1.05 * kNames / 11.0);
}

TEST_CASE("HRW: weights that are all equal change nothing", "[cluster][hrw]") {
  const auto plain = numbered(10);
  auto heavy = plain;
  for (Candidate& candidate : heavy) candidate.weight = 17.5;
  for (std::size_t i = 0; i < 20'000; ++i) {
    const auto digest = name_digest(i);
    const auto order = placement_order(plain, digest);
    REQUIRE(placement_order(heavy, digest) == order);
    REQUIRE(placement_first(heavy, digest) == order.front());
  }
}

TEST_CASE("HRW: among equal weights the order stays when another weight differs",
          "[cluster][hrw]") {
  const auto plain = numbered(10);
  auto mixed = plain;
  mixed[3].weight = 0.25;
  for (std::size_t i = 0; i < 20'000; ++i) {
    const auto digest = name_digest(i);
    auto expected = placement_order(plain, digest);
    auto got = placement_order(mixed, digest);
    REQUIRE(placement_first(mixed, digest) == got.front());
    std::erase(expected, 3U);
    std::erase(got, 3U);
    REQUIRE(got == expected);
  }
}

TEST_CASE("HRW: a target gets names in proportion to its weight", "[cluster][hrw]") {
  constexpr std::size_t kNames = 400'000;
  auto targets = numbered(4);
  targets[0].weight = 1;
  targets[1].weight = 2;
  targets[2].weight = 4;
  targets[3].weight = 1;
  std::vector<std::size_t> counts(targets.size());
  for (std::size_t i = 0; i < kNames; ++i) ++counts[placement_first(targets, name_digest(i))];
  for (std::size_t i = 0; i < targets.size(); ++i)
    CHECK(static_cast<double>(counts[i]) == Approx(targets[i].weight / 8.0 * kNames).epsilon(0.02));
}

TEST_CASE("HRW: the first few of an order are those of the whole", "[cluster][hrw]") {
  std::vector<Candidate> candidates;
  candidates.reserve(40);
  for (std::uint64_t i = 0; i < 40; ++i)
    candidates.push_back({placement_mix(i), 1.0 + static_cast<double>(i % 3)});
  for (std::uint64_t name = 0; name < 50; ++name) {
    const auto all = placement_order(candidates, placement_mix(name + 1000));
    REQUIRE(all.size() == candidates.size());
    for (const std::size_t count : std::initializer_list<std::size_t>{0, 1, 2, 7, 39, 40, 100}) {
      const auto some = placement_order(candidates, placement_mix(name + 1000), count);
      REQUIRE(some.size() == std::min(count, all.size()));
      REQUIRE(std::equal(some.begin(), some.end(), all.begin()));
    }
  }
}

TEST_CASE("HRW: the extremes of the hash have finite, ordered scores", "[cluster][hrw]") {
  // With one candidate of another weight the scores decide, also where u rounds to 0 or 1.
  std::vector<Candidate> pair{{0, 1.0}, {0, 2.0}};
  CHECK(placement_first(pair, 0) == 1);  // the same hash: the heavier wins
  std::swap(pair[0], pair[1]);
  CHECK(placement_first(pair, 0) == 0);
}

}  // namespace hrw_test
}  // namespace tarn::cluster
