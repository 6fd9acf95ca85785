#include "common/cluster/state/cluster_end.h"

#include <catch2/catch.hpp>

namespace tarn::cluster {
namespace cluster_end_test {

using Catch::Contains;
using Ids = std::vector<std::string>;

/// p1, p2, and targets t1 to t3.
Smap some_map() {
  Smap map;
  map.version = 10;
  map.primary = "p1";
  for (const char* id : {"p1", "p2", "t1", "t2", "t3"}) {
    Node node;
    node.id = id;
    node.role = *id == 'p' ? Role::proxy : Role::target;
    map.nodes[id] = node;
  }
  return map;
}

const std::set<std::string> kAll{"p1", "p2", "t1", "t2", "t3"};

TEST_CASE("A cluster ends with all of its nodes, and who is down stands against it", "[end]") {
  const Smap map = some_map();
  CHECK_FALSE(is_ending(map));
  for (const char* id : {"t2", "p2"}) {
    auto live = kAll;
    live.erase(id);
    const auto refused = with_cluster_end(map, live, {}, false, false);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::conflict);
    CHECK_THAT(refused.error().message, Contains(std::string("node ") + id + " is down"));
    const auto forced = with_cluster_end(map, live, {}, false, true);
    REQUIRE(forced);
    CHECK(left_out(*forced) == Ids{id});
  }
  const auto ending = with_cluster_end(map, kAll, {}, false, false);
  REQUIRE(ending);
  CHECK(ending->version == 11);
  CHECK(is_ending(*ending));
  CHECK_FALSE(ends_erased(*ending));
  CHECK(left_out(*ending).empty());
  CHECK(waited_for(*ending, {"t2"}) == Ids{"t1", "t3"});
}

TEST_CASE("The end is asked for again until it has come", "[end]") {
  const auto ending = with_cluster_end(some_map(), kAll, {}, true, false);
  REQUIRE(ending);
  const auto same = with_cluster_end(*ending, kAll, {}, true, false);
  REQUIRE(same);
  CHECK(same->version == ending->version);
  const auto other = with_cluster_end(*ending, kAll, {}, false, true);
  REQUIRE_FALSE(other);
  CHECK_THAT(other.error().message, Contains("erased (rm_user_data)"));
  // t1 has ended in order, t2 has not, p2 was told to end.
  const std::set<std::string> live{"p1", "t3"};
  const auto refused = with_cluster_end(*ending, live, {"t1"}, true, false);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, Contains("node t2 is down and has not ended in order"));
  const auto forced = with_cluster_end(*ending, live, {"t1"}, true, true);
  REQUIRE(forced);
  CHECK(left_out(*forced) == Ids{"t2"});
  CHECK(waited_for(*forced, {"t1"}) == Ids{"t3"});
  // Left out once, it is not asked for again; but when it comes back it ends as all others.
  CHECK(with_cluster_end(*forced, live, {"t1"}, true, false)->version == forced->version);
  CHECK(with_all_that_live(*forced, live).version == forced->version);
  const Smap returned = with_all_that_live(*forced, {"p1", "t2", "t3"});
  CHECK(returned.version == forced->version + 1);
  CHECK(waited_for(returned, {"t1"}) == Ids{"t2", "t3"});
  CHECK(ends_erased(returned));
}

TEST_CASE("A target whose data is erased ends behind the buckets", "[end]") {
  ClusterState state;
  state.map = some_map();
  BucketRecord bucket;
  bucket.name = {"ais", "", "", "data"};
  state.bmd.buckets[bucket.name] = bucket;
  CHECK_FALSE(target_is_to_end(state, "t1"));
  state.map = *with_cluster_end(some_map(), kAll, {}, false, false);
  CHECK(target_is_to_end(state, "t1"));
  CHECK_FALSE(target_is_to_end(state, "p1"));
  state.map = *with_cluster_end(some_map(), kAll, {}, true, false);
  CHECK_FALSE(target_is_to_end(state, "t1"));
  state.bmd.buckets.clear();
  CHECK(target_is_to_end(state, "t1"));
  CHECK_FALSE(target_is_to_end(state, "tX"));
}

}  // namespace cluster_end_test
}  // namespace tarn::cluster
