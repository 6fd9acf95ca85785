#include "target/commit/recode.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/coding_props.h"
#include "common/api/mirror_props.h"

namespace recode_test {

using namespace tarn;
using nlohmann::json;

api::BucketProps changed(const api::BucketProps& before, const json& wanted) {
  const auto after = api::with_changes(before, wanted);
  REQUIRE(after);
  return *after;
}

json coded(int k, int m, const char* layout, int limit = 1000) {
  return {{"ec",
           {{"enabled", true},
            {"data_slices", k},
            {"parity_slices", m},
            {"layout", layout},
            {"objsize_limit", limit}}}};
}

io::ObjectRecord object_of(std::uint64_t size) {
  io::ObjectRecord record;
  record.kind = io::ObjectRecord::Kind::object;
  record.size = size;
  return record;
}

io::ObjectRecord coded_object(std::uint64_t size, std::uint8_t k, std::uint8_t m,
                              io::Coding::Layout layout) {
  io::ObjectRecord record = object_of(size);
  record.coding.emplace();
  record.coding->k = k;
  record.coding->m = m;
  record.coding->layout = layout;
  return record;
}

TEST_CASE("recode: which objects are kept otherwise than their bucket wants") {
  using target::is_kept_otherwise;
  const api::BucketProps never;
  const auto striped = changed(never, coded(2, 1, "striped"));
  const auto off = changed(striped, {{"ec", {{"enabled", false}}}});
  struct Row {
    const api::BucketProps& props;
    io::ObjectRecord record;
    bool otherwise = false;
  };
  const Row rows[] = {
      {never, object_of(5000), false},
      {striped, object_of(5000), true},
      {striped, object_of(1000), false},  // at the limit
      {striped, object_of(0), false},
      {striped, coded_object(5000, 2, 1, io::Coding::Layout::striped), false},
      {striped, coded_object(5000, 2, 1, io::Coding::Layout::whole), true},
      {striped, coded_object(5000, 3, 1, io::Coding::Layout::striped), true},
      {striped, coded_object(5000, 2, 2, io::Coding::Layout::striped), true},
      {striped, coded_object(900, 2, 1, io::Coding::Layout::striped), true},  // the limit was lower
      {off, object_of(5000), false},
      {off, coded_object(5000, 2, 1, io::Coding::Layout::striped), true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.record.size, row.record.coding.has_value());
    CHECK(is_kept_otherwise(row.props, row.record) == row.otherwise);
  }
  io::ObjectRecord deleted;
  deleted.kind = io::ObjectRecord::Kind::tombstone;
  CHECK_FALSE(is_kept_otherwise(striped, deleted));
}

TEST_CASE("recode: what a bucket was is remembered, and not shown") {
  const auto on = changed({}, coded(2, 2, "whole"));
  CHECK(api::was_ever_coded(on));
  CHECK(api::replicas_of(on) == 3);
  const auto off = changed(on, {{"ec", {{"enabled", false}}}});
  CHECK(api::was_ever_coded(off));
  CHECK_FALSE(api::coding_of(off));
  CHECK(api::replicas_of(off) == 1);
  CHECK(api::was_ever_coded(api::reset_props(on, {})));
  CHECK(api::props_tree(off).dump().find("\"coded\"") == std::string::npos);
  CHECK_FALSE(api::was_ever_coded(changed({}, {{"ec", {{"data_slices", 4}}}})));
}

TEST_CASE("recode: what ec-encode may ask for") {
  const auto asked = api::with_coding({}, json(R"({"data_slices":4,"parity_slices":2})"));
  REQUIRE(asked);
  REQUIRE(api::coding_of(*asked));
  CHECK(api::coding_of(*asked)->k == 4);
  CHECK(api::coding_of(*asked)->m == 2);
  // Fields that are left out stay as they are.
  const auto again = api::with_coding(*asked, json{{"layout", "striped"}});
  REQUIRE(again);
  CHECK(api::coding_of(*again)->k == 4);
  CHECK_FALSE(api::coding_of(*again)->full_copy);
  for (const json& nothing : {json(), json(""), json("{}"), json::object()}) {
    const auto same = api::with_coding(*again, nothing);
    REQUIRE(same);
    CHECK(*same == *again);
  }
  for (const json& wrong : {json("[1]"), json("{"), json(5), json(R"({"data_slices":"x"})"),
                            json(R"({"data_slices":99})"), json(R"({"layout":"round"})")})
    CHECK_FALSE(api::with_coding({}, wrong));
}

TEST_CASE("recode: a bucket with copies on drives is not switched on or off") {
  const api::BucketProps plain;
  const auto on = changed(plain, coded(2, 1, "striped"));
  const auto mirrored = changed(changed(plain, {{"mirror", {{"enabled", true}, {"copies", 2}}}}),
                                {{"mirror", {{"enabled", false}}}});
  CHECK(api::check_other_coding(plain, on));
  CHECK(api::check_other_coding(on, plain));
  CHECK(api::check_other_coding(on, changed(on, coded(4, 2, "whole"))));
  CHECK_FALSE(api::check_other_coding(mirrored, changed(mirrored, coded(2, 1, "striped"))));
  // Too few targets: what is there alone would have to be copied on drives first.
  const auto few = api::with_record_copies(on, 1);
  CHECK_FALSE(api::check_other_coding(plain, few));
  CHECK_FALSE(api::check_other_coding(few, changed(few, {{"ec", {{"enabled", false}}}})));
  CHECK(api::check_other_coding(few, changed(few, coded(2, 3, "striped"))));
}

}  // namespace recode_test
