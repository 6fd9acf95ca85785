#include "common/cluster/state/state.h"

#include <ctime>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/cluster/node/membership.h"
#include "common/cluster/place/hrw.h"
#include "common/cluster/state/state_builder.h"
#include "common/cluster/store/keys.h"
#include "tests/simulation/map_changes.h"

namespace tarn::cluster {
namespace state_test {

using nlohmann::json;

Node node(const std::string& id, Role role) {
  Node out;
  out.id = id;
  out.role = role;
  out.public_url = "http://10.0.0.6:8081";
  out.internal_url = "http://10.0.0.6:9081";
  out.digest = placement_digest(id);
  return out;
}

Smap small_map() {
  Smap map;
  map.version = 12;
  map.uuid = "Lx3kPq9wZ";
  map.creation_time = "2026-08-21 10:11:12";
  map.nodes["prxAAAA1"] = node("prxAAAA1", Role::proxy);
  map.nodes["prxAAAA1"].relay_url = "http://10.0.0.6:8082";
  map.nodes["tgtBBBB2"] = node("tgtBBBB2", Role::target);
  map.primary = "prxAAAA1";
  return map;
}

BucketRecord bucket(const std::string& name, std::uint64_t id) {
  BucketRecord out;
  out.id = BucketId{id};
  out.name.name = name;
  out.created_ns = 1'755'770'000'000'000'000;
  return out;
}

TEST_CASE("The cluster map's document is frozen", "[cluster][state]") {
  const json written = small_map();
  CHECK(
      written.dump() ==
      R"({"creation_time":"2026-08-21 10:11:12","nodes":[)"
      R"({"flags":0,"id":"prxAAAA1","internal_url":"http://10.0.0.6:9081",)"
      R"("public_url":"http://10.0.0.6:8081","relay_url":"http://10.0.0.6:8082","role":"proxy","weight":1.0},)"
      R"({"flags":0,"id":"tgtBBBB2","internal_url":"http://10.0.0.6:9081",)"
      R"("public_url":"http://10.0.0.6:8081","role":"target","weight":1.0}],)"
      R"("primary":"prxAAAA1","uuid":"Lx3kPq9wZ","version":12})");
  const auto read = written.get<Smap>();
  CHECK(json(read) == written);
  CHECK(read.nodes.at("tgtBBBB2").digest == 11958113081091981865U);
}

TEST_CASE("A map with an unknown role or a weight of nothing is refused", "[cluster][state]") {
  json document = small_map();
  document["nodes"][0]["role"] = "witness";
  CHECK_THROWS(document.get<Smap>());
  document = small_map();
  document["nodes"][0]["weight"] = 0.0;
  CHECK_THROWS(document.get<Smap>());
}

TEST_CASE("The map has AIStore's JSON", "[cluster][state]") {
  const json out = aistore_json(small_map());
  CHECK(out["version"] == "12");
  CHECK(out["uuid"] == "Lx3kPq9wZ");
  CHECK(out["proxy_si"]["daemon_id"] == "prxAAAA1");
  CHECK(out["pmap"]["prxAAAA1"]["flags"] == 2);
  const json& target = out["tmap"]["tgtBBBB2"];
  CHECK(target["daemon_type"] == "target");
  CHECK(target["id_digest"] == 11958113081091981865U);
  CHECK(target["public_net"] == json({{"node_ip_addr", "10.0.0.6"},
                                      {"daemon_port", "8081"},
                                      {"direct_url", "http://10.0.0.6:8081"}}));
  CHECK(target["intra_data_net"]["direct_url"] == "http://10.0.0.6:9081");
  CHECK(aistore_json(Smap{})["proxy_si"].is_object());
}

TEST_CASE("A bucket's document is frozen, and its props are AIStore's tree", "[cluster][state]") {
  const json written = bucket("photos", 7);
  CHECK(written.dump() ==
        R"({"bucket":{"name":"photos","namespace":{"name":"","uuid":""},"provider":"ais"},)"
        R"("created_ns":1755770000000000000,"durability":"full","id":7,"versioning":true})");
  CHECK(json(written.get<BucketRecord>()) == written);
  BucketRecord renamed = bucket("photos", 7);
  renamed.first_name = bucket("old", 0).name;
  renamed.former_name = bucket("older", 0).name;
  const auto read = json(renamed).get<BucketRecord>();
  CHECK(read.first_name == renamed.first_name);
  CHECK(read.former_name == renamed.former_name);
  CHECK(read.placement_name("a/b") == "ais/@#/old/a/b");
  auto relaxed = written;
  relaxed["durability"] = "none";
  CHECK_THROWS(relaxed.get<BucketRecord>());

  const json props = aistore_props(bucket("photos", 7));
  for (const char* key :
       {"backend_bck", "write_policy", "provider", "checksum", "extra", "rate_limit", "ec",
        "chunks", "mirror", "lru", "access", "features", "bid", "created", "versioning"})
    CHECK(props.contains(key));
  CHECK(props["bid"] == "7");
  CHECK(props["created"] == "1755770000000000000");

  Bmd bmd;
  bmd.version = 3;
  bmd.buckets[bucket("photos", 7).name] = bucket("photos", 7);
  const json all = aistore_json(bmd);
  CHECK(all["version"] == "3");
  CHECK(all["providers"]["ais"]["@#"]["photos"]["bid"] == "7");
  CHECK(bmd.find(BucketId{7})->name.name == "photos");
  CHECK(bmd.find(BucketId{8}) == nullptr);
  CHECK(bmd.find(bucket("photos", 0).name) != nullptr);
  CHECK(bmd.find(bucket("other", 0).name) == nullptr);
}

TEST_CASE("What was set on a bucket is kept with it", "[cluster][state]") {
  BucketRecord stored = bucket("photos", 7);
  stored.props.durability = Durability::nosync;
  stored.props.others["mirror.copies"] = "3";
  const json written = stored;
  CHECK(written["props"] == json{{"mirror.copies", 3}});
  CHECK(written.get<BucketRecord>().props == stored.props);
  CHECK_FALSE(stored.replica_count().many());
  stored.past_replica_counts = {{7, 2}, {9, 3}};
  const auto again = json(stored).get<BucketRecord>();
  CHECK(again.past_replica_counts == stored.past_replica_counts);
  CHECK(again.replica_count_since() == 10);
  CHECK(again.replica_count().many());
  CHECK(again.replica_count().at(7) == 2);
  CHECK(again.replica_count().at(8) == 3);
  CHECK(again.replica_count().at(10) == 1);
  const json tree = aistore_props(stored);
  CHECK(tree["durability"] == "nosync");
  CHECK(tree["mirror"]["copies"] == 3);
  CHECK(tree["bid"] == "7");
}

TEST_CASE("Admitting a node changes the map only when it says something new", "[cluster][state]") {
  Smap map;
  map.version = 1;
  CHECK(admit(map, node("tgtBBBB2", Role::target)));
  CHECK(map.version == 2);
  CHECK(map.primary.empty());
  CHECK_FALSE(admit(map, node("tgtBBBB2", Role::target)));
  CHECK(map.version == 2);
  CHECK(admit(map, node("prxAAAA1", Role::proxy)));
  CHECK(map.primary == "prxAAAA1");
  map.nodes["tgtBBBB2"].weight = 3;
  map.nodes["tgtBBBB2"].flags = 4;
  auto moved = node("tgtBBBB2", Role::target);
  moved.public_url = "http://10.0.0.7:8081";
  moved.weight = 3;
  CHECK(admit(map, moved));
  CHECK(map.version == 4);
  CHECK(map.nodes["tgtBBBB2"].public_url == "http://10.0.0.7:8081");
  CHECK(map.nodes["tgtBBBB2"].weight == 3);
  CHECK(map.nodes["tgtBBBB2"].flags == 4);
}

TEST_CASE("A target that comes with another weight owns another share of the names",
          "[cluster][state]") {
  Smap map;
  CHECK(admit(map, node("tgtAAAA1", Role::target)));
  CHECK(admit(map, node("tgtBBBB2", Role::target)));
  map.past.clear();  // all has moved
  auto heavier = node("tgtBBBB2", Role::target);
  heavier.weight = 3;
  CHECK(admit(map, heavier));
  CHECK_FALSE(admit(map, heavier));
  REQUIRE(map.past.size() == 1);  // what was theirs until then is looked for there
  const NodeSet& before = map.past.front().nodes;
  const NodeSet now = ownership_of(map).current;
  int owned_before = 0;
  int owned_now = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto digest = placement_digest("ais/@#/b/" + std::to_string(i));
    owned_before += before.owner(digest) == "tgtBBBB2" ? 1 : 0;
    owned_now += now.owner(digest) == "tgtBBBB2" ? 1 : 0;
  }
  CHECK(owned_before > 430);
  CHECK(owned_before < 570);
  CHECK(owned_now > 690);
  CHECK(owned_now < 810);
}

TEST_CASE("A target keeps its zone until it comes with another one", "[cluster][state][zones]") {
  Smap map;
  CHECK(admit(map, node("tgtAAAA1", Role::target)));
  CHECK(admit(map, node("tgtBBBB2", Role::target)));
  map.past.clear();
  map.rebalance.held = true;
  auto first = node("tgtAAAA1", Role::target);
  first.zone = "rack-1";
  CHECK(admit(map, first));
  CHECK_FALSE(admit(map, node("tgtAAAA1", Role::target)));
  CHECK(map.nodes["tgtAAAA1"].zone == "rack-1");
  // Not all have one: nothing is to move.
  CHECK(map.past.empty());
  CHECK(map.rebalance.held);
  auto second = node("tgtBBBB2", Role::target);
  second.zone = "rack-2";
  CHECK(admit(map, second));
  CHECK(map.past.size() == 1);
  CHECK_FALSE(map.rebalance.held);
  CHECK(schema_of(map) == keys::kZonesSchemaText);
  const auto again = json(map).get<Smap>();
  CHECK(ownership_of(again).current == ownership_of(map).current);
  CHECK(again.past == map.past);
  CHECK(aistore_json(map)["tmap"]["tgtBBBB2"]["zone"] == "rack-2");
  second.zone = "rack-1";
  CHECK(admit(map, second));
  CHECK(map.past.size() == 2);
  CHECK(schema_of(small_map()) == keys::kSchemaText);
  CHECK_FALSE(aistore_json(small_map())["tmap"]["tgtBBBB2"].contains("zone"));
}

RangeResult stored() {
  RangeResult all;
  const auto add = [&](std::string key, std::string value) {
    all.items.push_back({std::move(key), std::move(value), 1, 1, 0});
  };
  add("/tarn/cluster", "Lx3kPq9wZ");
  add("/tarn/schema", "1");
  add("/tarn/map", json(small_map()).dump());
  add("/tarn/version/bmd", "5");
  add(keys::bucket(BucketId{4}), json(bucket("photos", 4)).dump());
  add(keys::dead_bucket(BucketId{3}), "5");
  add(keys::live("tgtBBBB2"), encode(LiveRecord{Role::target, 12, 5}));
  add("/tarn/later/feature", "?");
  all.revision = 40;
  return all;
}

TEST_CASE("A state is built from the keys of the store", "[cluster][state]") {
  StateBuilder builder;
  CHECK(builder.build().error().code == Errc::not_found);
  builder.reset(stored());
  auto state = builder.build().value();
  CHECK(state->revision == 40);
  CHECK(state->uuid == "Lx3kPq9wZ");
  CHECK(state->map.version == 12);
  CHECK(state->bmd.version == 5);
  CHECK(state->bmd.find(BucketId{4})->name.name == "photos");
  CHECK(state->bmd.dead.contains(BucketId{3}));
  CHECK(state->live.contains("tgtBBBB2"));

  WatchBatch batch;
  batch.events.push_back({WatchEvent::Type::del, {keys::live("tgtBBBB2"), "", 0, 41, 0}});
  batch.events.push_back({WatchEvent::Type::put, {"/tarn/version/bmd", "6", 1, 42, 0}});
  batch.revision = 42;
  builder.apply(batch);
  state = builder.build().value();
  CHECK(state->revision == 42);
  CHECK(state->live.empty());
  CHECK(state->bmd.version == 6);
}

TEST_CASE("A state says whose names are whose, and what targets say of it", "[cluster][state]") {
  Smap map = small_map();
  Ownership next = with_flags(ownership_of(map), "tgtBBBB2", kDown, 0).value();
  take_ownership(map, next);
  CHECK(map.version == 13);
  CHECK(json(map).get<Smap>().past.size() == map.past.size());
  CHECK(json(map).get<Smap>().past.front().nodes == map.past.front().nodes);
  // AIStore's clients do not hear of flags that AIStore does not have.
  CHECK(aistore_json(map)["tmap"]["tgtBBBB2"]["flags"] == 0);

  RangeResult all = stored();
  for (KeyValue& item : all.items)
    if (item.key == keys::kMap) item.value = json(map).dump();
  all.items.push_back({std::string(keys::kSettled), "12", 1, 1, 0});
  LiveRecord status{Role::target, 13, 5};
  status.under_way = {"ais/@#/photos/cat.jpg"};
  status.moved = 12;
  status.coding = true;
  all.items.push_back({keys::live("tgtCCCC3"), encode(status), 1, 1, 0});
  all.items.push_back({keys::live("prxAAAA1"), encode(LiveRecord{Role::proxy, 13, 5}), 1, 1, 0});
  StateBuilder builder;
  builder.reset(all);
  const auto ownership = builder.build().value()->ownership;
  CHECK(ownership->revision == 40);
  CHECK(ownership->settled == 12);
  CHECK(ownership->map->version == 13);
  CHECK(ownership->map->past.front().last == 12);
  CHECK(ownership->live.size() == 2);
  REQUIRE(ownership->find("tgtCCCC3") != nullptr);
  CHECK(ownership->find("tgtCCCC3")->under_way == status.under_way);
  CHECK(ownership->find("tgtCCCC3")->moved == 12);
  CHECK(ownership->find("tgtCCCC3")->coding);
  CHECK_FALSE(ownership->find("tgtBBBB2")->coding);  // a program of before
}

TEST_CASE("A change does not read again what has not changed", "[cluster][state]") {
  auto all = stored();
  for (std::uint64_t id = 10; id < 3'010; ++id)
    all.items.push_back({keys::bucket(BucketId{id}),
                         json(bucket("bucket" + std::to_string(id), id)).dump(), 1, 1, 0});
  StateBuilder builder;
  builder.reset(all);
  const auto seconds_of = [&](int times) {
    const auto begun = std::clock();
    for (int i = 0; i < times; ++i) CHECK(builder.build().value()->bmd.buckets.size() == 3'001);
    return static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  };
  const double first = seconds_of(1);
  WatchBatch batch;
  batch.events.push_back({WatchEvent::Type::put, {"/tarn/version/bmd", "6", 1, 42, 0}});
  batch.revision = 42;
  builder.apply(batch);
  const double later = seconds_of(20) / 20;
  INFO("first " << first << " s, later " << later << " s");
  CHECK(later < first / 2);
}

TEST_CASE("Documents that cannot be read, or of a newer format, are no state", "[cluster][state]") {
  const auto built = [](const char* key, const char* value) {
    auto all = stored();
    all.items.push_back({key, value, 1, 1, 0});
    StateBuilder builder;
    builder.reset(all);
    return builder.build();
  };
  CHECK(built("/tarn/map", "{").error().code == Errc::corrupt);
  CHECK(built("/tarn/version/bmd", "x").error().code == Errc::corrupt);
  CHECK(built("/tarn/bucket/9", "{}").error().code == Errc::corrupt);
  CHECK(built("/tarn/schema", "4").error().code == Errc::unsupported);
  CHECK(built("/tarn/schema", "3"));
}

TEST_CASE("Names of buckets are distinct keys", "[cluster][state]") {
  api::Bucket plain;
  plain.name = "photos";
  api::Bucket blue = plain;
  blue.ns_name = "blue";
  CHECK(keys::bucket_name(plain) == "/tarn/bucket-name/ais/@#/photos");
  CHECK(keys::bucket_name(blue) == "/tarn/bucket-name/ais/@#blue/photos");
  CHECK(prefix_end("/tarn/") == "/tarn0");
  CHECK(prefix_end("a\xff") == "b");
  CHECK(prefix_end("\xff") == std::string(1, '\0'));
}

}  // namespace state_test
}  // namespace tarn::cluster
