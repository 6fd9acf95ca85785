#include "common/cluster/state/bucket_changes.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/membership_fixture.h"

namespace tarn::cluster {
namespace bucket_changes_test {

using namespace std::chrono_literals;
using namespace testing;

TEST_CASE("A bucket is created once and destroyed once, and its id never comes back",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  const auto first = cluster.create("photos");
  REQUIRE(first);
  CHECK(cluster.view.state()->bmd.find(first->id)->name.name == "photos");
  const auto again = cluster.create("photos");
  CHECK(again.error().code == Errc::bucket_exists);
  CHECK(again.error().message.find("ais://photos") != std::string::npos);
  const auto version = cluster.view.state()->bmd.version;
  REQUIRE(cluster.destroy("photos"));
  CHECK(cluster.view.state()->bmd.version == version + 2);
  CHECK(cluster.view.state()->bmd.dead.contains(first->id));
  CHECK(cluster.view.state()->bmd.find(bucket("photos")) == nullptr);
  CHECK(cluster.destroy("photos").error().code == Errc::bucket_not_found);
  const auto second = cluster.create("photos");
  REQUIRE(second);
  CHECK(raw(second->id) > raw(first->id));
  // A late finish_destroy() of the first one leaves the second alone.
  CHECK(cluster.run(finish_destroy(cluster.flaky, cluster.view, bucket("photos"), first->id,
                                   cluster.view.state()->bmd.version, 1s)));
  CHECK(cluster.view.state()->bmd.find(second->id) != nullptr);
  CHECK(cluster.create("bad..name").error().code == Errc::invalid_argument);
}

TEST_CASE("Changes of buckets whose outcome was unknown are resolved", "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  cluster.flaky.lost_answers = 1;
  const auto made = cluster.create("photos");
  REQUIRE(made);
  CHECK(cluster.view.state()->bmd.find(made->id) != nullptr);
  CHECK(cluster.view.state()->bmd.find(made->id)->created_ns == made->created_ns);
  CHECK(cluster.view.state()->bmd.buckets.size() == 2);
  cluster.flaky.lost_answers = 1;
  CHECK(cluster.destroy("photos"));
  CHECK(cluster.view.state()->bmd.buckets.size() == 1);
  cluster.flaky.away = true;
  CHECK(cluster.create("later").error().code == Errc::unavailable);
}

TEST_CASE("A coded bucket is made only when all targets can keep its objects",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  BucketProps props;
  props.others = {{"ec.enabled", "true"}, {"ec.layout", R"("striped")"}};
  const auto make = [&](const std::string& name) {
    return cluster.run(
        create_bucket(cluster.flaky, cluster.view, bucket(name), props, cluster.clock));
  };
  const auto say = [&](const std::string& id, bool coding) {
    LiveRecord status{Role::target, 1, 1};
    status.coding = coding;
    Transaction change;
    change.puts.push_back({keys::live(id), encode(status), 0});
    REQUIRE(cluster.run(cluster.store->commit(std::move(change)))->succeeded);
  };
  Smap map = cluster.run(cluster.view.fresh()).value()->map;
  for (const char* id : {"tgtA", "tgtB"}) {
    map.nodes[id] = node(id, Role::target);
    map.nodes[id].drives = 2;
  }
  Transaction change;
  change.puts.push_back({std::string(keys::kMap), nlohmann::json(map).dump(), 0});
  REQUIRE(cluster.run(cluster.store->commit(std::move(change)))->succeeded);
  say("tgtA", true);
  const auto away = make("one");
  REQUIRE(!away);
  CHECK(away.error().code == Errc::unavailable);
  CHECK_THAT(away.error().message, Catch::Contains("t[tgtB] is away"));
  say("tgtB", false);
  const auto old = make("one");
  REQUIRE(!old);
  CHECK(old.error().code == Errc::unsupported);
  CHECK_THAT(old.error().message, Catch::Contains("t[tgtB] runs a version"));
  CHECK(cluster.create("plain"));
  say("tgtB", true);
  CHECK(make("one"));
  props.others["ec.data_slices"] = "3";  // five slices, four drives
  const auto many = make("two");
  REQUIRE(!many);
  CHECK(many.error().code == Errc::invalid_argument);
  CHECK_THAT(many.error().message, Catch::Contains("ec.data_slices can be 2 at most"));
}

TEST_CASE("A bucket is renamed: its id and where its names lie stay, and asking again is safe",
          "[cluster][membership]") {
  Cluster cluster;
  REQUIRE(cluster.run(bootstrap(cluster.flaky, "data", cluster.clock)));
  const auto rename = [&](const std::string& from, const std::string& to) {
    return cluster.run(rename_bucket(cluster.flaky, cluster.view, bucket(from), bucket(to)));
  };
  const BucketRecord made = cluster.create("a").value();
  CHECK(made.placement_name("x") == "ais/@#/a/x");
  const auto once = rename("a", "b");
  REQUIRE(once);
  CHECK(once->id == made.id);
  CHECK(once->placement_name("x") == "ais/@#/a/x");
  CHECK(cluster.view.state()->bmd.find(bucket("a")) == nullptr);
  CHECK(cluster.view.state()->bmd.find(bucket("b"))->id == made.id);
  CHECK(cluster.view.state()->bmd.dead.empty());
  // The answer was lost, and the call comes again.
  const auto version = cluster.view.state()->bmd.version;
  CHECK(rename("a", "b")->id == made.id);
  CHECK(cluster.view.state()->bmd.version == version);
  // The transaction was committed and its answer lost: our own change must not be refused.
  cluster.flaky.lost_answers = 1;
  CHECK(rename("b", "c")->id == made.id);
  CHECK(cluster.view.state()->bmd.find(bucket("c"))->first_name == bucket("a"));

  CHECK(rename("no", "d").error().code == Errc::bucket_not_found);
  CHECK(rename("c", "data").error().code == Errc::bucket_exists);
  CHECK(rename("c", "a b").error().code == Errc::invalid_argument);
  // Both names are taken again: that is no answer lost.
  REQUIRE(cluster.create("b"));
  CHECK(rename("b", "c").error().code == Errc::bucket_exists);
  // Back to the first name: placed by it as ever, with nothing to remember.
  CHECK_FALSE(rename("c", "a")->first_name);
  CHECK(rename("a", "e")->placement_name("x") == "ais/@#/a/x");
}

}  // namespace bucket_changes_test
}  // namespace tarn::cluster
