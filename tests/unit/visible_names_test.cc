// The condition under which what targets with all their drives show leaves out no name of a bucket.

#include "common/cluster/place/visible_names.h"

#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "tests/unit/ownership_fixture.h"

namespace tarn::cluster {
namespace visible_names_test {

bool shows_all(const Ownership& map, const ReplicaCount& count,
               const std::set<std::string>& blind) {
  return shows_all_names(map, count, [&](const std::string& id) { return blind.contains(id); });
}

TEST_CASE("visible names: one replica fewer than a name has may be blind", "[ownership]") {
  const Ownership map = map_of({"t1", "t2", "t3"});
  CHECK(shows_all(map, 1, {}));
  CHECK_FALSE(shows_all(map, 1, {"t1"}));
  CHECK(shows_all(map, 2, {"t1"}));
  CHECK_FALSE(shows_all(map, 2, {"t1", "t2"}));
  CHECK(shows_all(map, 3, {"t1", "t3"}));
  CHECK_FALSE(shows_all(map, 3, {"t1", "t2", "t3"}));
  // Fewer targets than copies.
  CHECK(shows_all(map, 5, {"t1", "t3"}));
  CHECK_FALSE(shows_all(map, 5, {"t1", "t2", "t3"}));
  CHECK(shows_all(map, 2, {"t9"}));
}

TEST_CASE("visible names: a past epoch may be all that has a name", "[ownership]") {
  const Ownership one = map_of({"t1"});
  const Ownership two = with_member(one, member("t2"));
  REQUIRE(two.past.size() == 1);
  CHECK(shows_all(two, 2, {}));
  CHECK(shows_all(two, 2, {"t2"}));
  CHECK_FALSE(shows_all(two, 2, {"t1"}));
  const auto done = without_done_sets(two, [](const std::string&) { return true; });
  REQUIRE(done);
  CHECK(shows_all(*done, 2, {"t1"}));
}

TEST_CASE("visible names: another number of copies leaves those of before", "[ownership]") {
  const Ownership before = map_of({"t1", "t2", "t3"});
  const Ownership after = with_other_copies(before);
  std::vector<PastReplicaCount> then;
  note_replica_count(then, after, 1);
  CHECK_FALSE(shows_all(after, ReplicaCount(2, then), {"t1"}));
  CHECK(shows_all(after, ReplicaCount(2, then), {}));
}

TEST_CASE("visible names: who has lost what it had is blind in the sets of before", "[ownership]") {
  const Ownership all = map_of({"t1", "t2", "t3"});
  const Ownership lost = with_loss(all, "t2", 77);
  CHECK(shows_all(lost, 2, {"t2"}));
  CHECK_FALSE(shows_all(lost, 2, {"t1"}));
  CHECK(shows_all(lost, 3, {"t1"}));
}

TEST_CASE("visible names: a set that is kept for one that is out stands for no other",
          "[ownership]") {
  const Ownership all = map_of({"t1", "t2", "t3"});
  const Ownership out = with_flags(all, "t1", kDown | kOut, 0).value();
  CHECK_FALSE(shows_all(out, 2, {"t1", "t2"}));
  const auto but_t1 = [](const std::string& id) { return id != "t1"; };
  const Ownership given = with_given_sets(out, but_t1).value();
  CHECK(shows_all(given, 2, {"t1", "t2"}));
  CHECK_FALSE(shows_all(given, 2, {"t2", "t3"}));
}

}  // namespace visible_names_test
}  // namespace tarn::cluster
