#include "common/api/bucket_props.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/coding_props.h"
#include "common/api/mirror_props.h"

namespace tarn::api {
namespace bucket_props_test {

using nlohmann::json;

Result<BucketProps> change(const char* text, BucketProps props = {}) {
  return with_changes(std::move(props), json::parse(text));
}

std::string problem(const char* text, Errc code) {
  const auto changed = change(text);
  REQUIRE_FALSE(changed);
  INFO(changed.error().message);
  CHECK(changed.error().code == code);
  return changed.error().message;
}

TEST_CASE("bucket properties: the tree has AIStore's defaults", "[api][props]") {
  const json tree = props_tree({});
  CHECK(tree == json::parse(R"({
    "Renamed": "",
    "backend_bck": {"name": "", "provider": "", "namespace": {"uuid": "", "name": ""}},
    "write_policy": {"data": "immediate", "md": "immediate"},
    "checksum": {"type": "xxhash2", "validate_cold_get": false, "validate_warm_get": false,
                 "validate_obj_move": false, "enable_read_range": false},
    "extra": {"aws": {}, "gcp": {}, "oci": {}},
    "rate_limit": {
      "backend": {"interval": "1m", "max_tokens": 1000, "enabled": false, "num_retries": 3},
      "frontend": {"interval": "1m", "max_tokens": 1000, "enabled": false, "burst_size": 375}},
    "ec": {"compression": "never", "bundle_multiplier": 2, "burst_buffer": 512,
           "objsize_limit": 262144, "data_slices": 2, "parity_slices": 2, "enabled": false,
           "disk_only": false, "layout": "whole"},
    "chunks": {"objsize_limit": "0B", "max_monolithic_size": "1TiB", "chunk_size": "1GiB",
               "checkpoint_every": 0},
    "mirror": {"copies": 2, "burst_buffer": 512, "enabled": false, "domain": "drive"},
    "lru": {"dont_evict_time": "2h0m", "capacity_upd_time": "10m", "batch_size": 32768,
            "enabled": false},
    "access": "18446744073709551615",
    "features": "0",
    "versioning": {"enabled": true, "validate_warm_get": false, "synchronize": false},
    "durability": "full"
  })"));
  CHECK(with_changes({}, tree).value() == BucketProps{});
}

TEST_CASE("bucket properties: a part of the tree changes what it names and no more",
          "[api][props]") {
  const auto first = change(R"({"mirror": {"copies": 3}, "extra": {"custom": "owner:team-a"}})");
  REQUIRE(first);
  const auto second = change(R"({"Versioning": {"ENABLED": false}, "lru": {"dont_evict_time": "1h"},
                 "durability": "nosync", "ec": {"data_slices": null}})",
                             *first);
  REQUIRE(second);
  json expected = props_tree({});
  expected["mirror"]["copies"] = 3;
  expected["extra"]["custom"] = "owner:team-a";
  expected["versioning"]["enabled"] = false;
  expected["lru"]["dont_evict_time"] = "1h";
  expected["durability"] = "nosync";
  CHECK(props_tree(*second) == expected);
  CHECK_FALSE(second->versioning);
  CHECK(second->durability == Durability::nosync);
  // Back to the default is as if it had never been set.
  const auto back = change(R"({"mirror": {"copies": 0}, "extra": {"custom": ""},
                               "versioning": {"enabled": true}, "lru": {"dont_evict_time": "2h0m"},
                               "durability": "full"})",
                           *second);
  CHECK(back.value() == BucketProps{});
  CHECK(change("null", *second).value() == *second);
  CHECK(change("{}", *second).value() == *second);
}

TEST_CASE("bucket properties: keys that nobody knows are ignored, as AIStore does",
          "[api][props]") {
  CHECK(change(R"({"colour": "red", "mirror": {"colour": 1}, "bid": "1", "created": "2",
                   "provider": "aws", "force": true})")
            .value() == BucketProps{});
}

TEST_CASE("bucket properties: a wrong value is named with what is allowed", "[api][props]") {
  const auto message = problem(R"({"mirror": {"copies": 99}})", Errc::invalid_argument);
  CHECK(message.find("'mirror.copies' cannot be 99") != std::string::npos);
  CHECK(message.find("from 2 to 32") != std::string::npos);
  CHECK(problem(R"({"durability": "none"})", Errc::invalid_argument).find("\"full\", \"nosync\"") !=
        std::string::npos);
  for (const char* text :
       {"[]", R"({"ec": true})", R"({"versioning": {"enabled": "yes"}})",
        R"({"mirror": {"copies": "3"}})", R"({"mirror": {"copies": 2.5}})",
        R"({"mirror": {"copies": -1}})", R"({"ec": {"objsize_limit": 18446744073709551615}})",
        R"({"checksum": {"type": "crc7"}})", R"({"checksum": {"type": 1}})",
        R"({"checksum": {"type": "xxhash2|md5"}})", R"({"lru": {"dont_evict_time": "soon"}})",
        R"({"lru": {"dont_evict_time": 5}})", R"({"chunks": {"chunk_size": "10TiB"}})",
        R"({"mirror": {"enabled": 1}})", R"({"access": {}})", R"({"force": "yes"})"}) {
    INFO(text);
    problem(text, Errc::invalid_argument);
  }
}

TEST_CASE("bucket properties: what is not built cannot be switched on", "[api][props]") {
  for (const char* text :
       {R"({"rate_limit": {"frontend": {"enabled": true}}})",
        R"({"rate_limit": {"frontend": {"enabled": true}}})",
        R"({"backend_bck": {"name": "b", "provider": "aws"}})", R"({"access": "15"})",
        R"({"features": 2})", R"({"checksum": {"enable_read_range": true}})",
        R"({"write_policy": {"md": "delayed"}})", R"({"chunks": {"objsize_limit": "1GiB"}})",
        R"({"extra": {"aws": {"max_pagesize": 5}}})"}) {
    INFO(text);
    CHECK(problem(text, Errc::unsupported).find("later work") != std::string::npos);
  }
  // At their defaults they may be given.
  CHECK(change(R"({"mirror": {"enabled": false}, "access": "18446744073709551615", "features": 0,
                   "backend_bck": {"name": "", "provider": ""}, "write_policy": {"data": ""}})")
            .value() == BucketProps{});
}

TEST_CASE("bucket properties: coding", "[api][props][coded]") {
  CHECK_FALSE(coding_of(BucketProps{}));
  const auto with = [](const char* more) {
    return change(fmt::format(R"({{"ec": {{"enabled": true, {}}}}})", more).c_str());
  };
  const auto striped =
      with(R"("layout": "striped", "data_slices": 8, "objsize_limit": 10)").value();
  const CodingProps coding = coding_of(striped).value();
  CHECK(coding == CodingProps{8, 2, 10, false});
  CHECK_FALSE(coding.is_coded(10));
  CHECK(coding.is_coded(11));
  CHECK_FALSE(
      coding_of(with(R"("layout": "striped", "objsize_limit": -1)").value())->is_coded(1U << 30U));
  CHECK(check_coding(BucketProps{}));
  CHECK(check_coding(striped));
  const auto whole = with("\"data_slices\": 8, \"objsize_limit\": 10").value();
  CHECK(check_coding(whole));
  CHECK(coding_of(whole) == CodingProps{8, 2, 10, true});
  const auto owner = change(R"({"durability": "owner"})").value();
  CHECK(check_coding(owner).error().code == Errc::invalid_argument);
  CHECK(check_coding(change(R"({"ec": {"enabled": true}})", owner).value()));
  CHECK(check_coding(with(R"("layout": "striped", "data_slices": 31)").value()).error().code ==
        Errc::invalid_argument);
  CHECK(check_coding(change(R"({"mirror": {"enabled": true}})", striped).value()).error().code ==
        Errc::invalid_argument);
  CHECK(with(R"("layout": "stripes")").error().code == Errc::invalid_argument);
}

TEST_CASE("bucket properties: records on few targets have copies on their drives",
          "[api][props][coded]") {
  const auto coded = change(R"({"ec": {"enabled": true, "parity_slices": 2}})").value();
  CHECK(copies_of(coded) == 0);
  CHECK(with_record_copies(coded, 3) == coded);
  CHECK(with_record_copies(coded, 0) == coded);
  const auto two = with_record_copies(coded, 2);
  CHECK(copies_of(two) == 2);
  CHECK(copies_of(with_record_copies(coded, 1)) == 3);
  CHECK(copies_of(with_record_copies(two, 1)) == 3);
  CHECK(with_record_copies(two, 8) == two);
  CHECK(with_record_copies(BucketProps{}, 1) == BucketProps{});
  CHECK(props_tree(two) == props_tree(coded));
  CHECK(copies_of(reset_props(two, BucketProps{})) == 2);
  CHECK(check_copies(two, two, true));
}

TEST_CASE("bucket properties: copies on nodes are none on drives", "[api][props]") {
  const auto two = change(R"({"mirror": {"enabled": true, "domain": "node"}})").value();
  CHECK(node_copies_of(two) == 2);
  CHECK(copies_of(two) == 0);
  CHECK(node_copies_of(BucketProps{}) == 1);
  const auto three =
      change(R"({"mirror": {"enabled": true, "domain": "node", "copies": 3}})").value();
  CHECK(node_copies_of(three) == 3);
  CHECK(copies_of(with_copies(two, 3)) == 0);
  CHECK(node_copies_of(with_copies(two, 3)) == 3);
  CHECK(node_copies_of(with_copies(two, 1)) == 1);
  CHECK(check_copies(two, three, true));
  CHECK(check_copies(two, reset_props(two, {}), true));
  const auto on_drives = change(R"({"mirror": {"enabled": true}})").value();
  CHECK(check_copies(two, on_drives, true).error().code == Errc::unsupported);
  CHECK(check_copies(BucketProps{}, on_drives, true).error().code == Errc::unsupported);
  CHECK(check_copies(BucketProps{}, on_drives, false));
  CHECK(check_copies(on_drives, two, false).error().code == Errc::unsupported);
}

TEST_CASE("bucket properties: a bucket that was mirrored once stays spread over its drives",
          "[api][props]") {
  CHECK(copies_of(BucketProps{}) == 0);
  CHECK(copies_of(change(R"({"mirror": {"copies": 5}})").value()) == 0);
  const auto two = change(R"({"mirror": {"enabled": true}})").value();
  CHECK(copies_of(two) == 2);
  CHECK(copies_of(change(R"({"mirror": {"enabled": true, "copies": 3}})").value()) == 3);
  const auto off = with_changes(two, nlohmann::json::parse(R"({"mirror": {"enabled": false}})"));
  CHECK(copies_of(off.value()) == 1);
  CHECK(copies_of(reset_props(two, {})) == 1);
  CHECK(reset_props(BucketProps{}, {}) == BucketProps{});
  // The cluster's defaults for new buckets count again.
  const auto defaults = change(R"({"mirror": {"enabled": true, "copies": 3}})").value();
  CHECK(copies_of(reset_props(two, defaults)) == 3);
  CHECK(copies_of(reset_props(BucketProps{}, defaults)) == 3);
  CHECK(copies_of(with_copies({}, 4)) == 4);
  CHECK(copies_of(with_copies(with_copies({}, 4), 2)) == 2);
  CHECK(copies_of(with_copies(with_copies({}, 4), 1)) == 1);
  CHECK(copies_of(with_copies({}, 1)) == 0);
  const auto tree = props_tree(with_copies({}, 3));
  CHECK(tree["mirror"] == nlohmann::json::parse(R"({"burst_buffer": 512, "copies": 3,
                                                    "domain": "drive", "enabled": true})"));
}

}  // namespace bucket_props_test
}  // namespace tarn::api
