#include "target/coded/slice_messages.h"

#include <catch2/catch.hpp>

#include "tests/unit/slice_fixture.h"

namespace slice_messages_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;

/// As it comes out of a URL.
api::Query over_the_wire(const api::Query& query) {
  return api::Query::parse(query.encode()).value();
}

const SliceKey kKey{BucketId(7), "a b/c%d&e=f", 0xfedcba9876543210, 5};
constexpr AsOf kAsOf{9, 4};

TEST_CASE("slice calls: what is asked for arrives as it was meant", "[target][slice]") {
  SliceWrite write;
  write.token = SliceToken(0x0123456789abcdef);
  write.key = kKey;
  write.geometry = {4, 2, 65536};
  write.rank = 3;
  const auto query = over_the_wire(to_query(write, kAsOf));
  const auto got = slice_write_of(query).value();
  CHECK(got.token == write.token);
  CHECK(got.key == kKey);
  CHECK(got.geometry == write.geometry);
  CHECK(got.rank == 3);
  CHECK_FALSE(got.bytes);
  CHECK(as_of(query)->map_version == 9);
  CHECK(as_of(query)->bmd_version == 4);
  write.bytes = 1000;
  CHECK(slice_write_of(over_the_wire(to_query(write, kAsOf)))->bytes == 1000U);
  CHECK(got.purpose == TurnFor::client);
  write.purpose = TurnFor::background;
  CHECK(slice_write_of(over_the_wire(to_query(write, kAsOf)))->purpose == TurnFor::background);

  const auto read = slice_read_of(over_the_wire(to_query(SliceRead{kKey, {512, 100}}, kAsOf)));
  CHECK(read->key == kKey);
  CHECK(read->range == ec::FileRange{512, 100});
  CHECK(!read->unless_slow);
  CHECK(read->purpose == TurnFor::client);
  const SliceRead quick{
      .key = kKey, .range = {}, .purpose = TurnFor::background, .unless_slow = true};
  CHECK(slice_read_of(over_the_wire(to_query(quick, kAsOf)))->unless_slow);
  CHECK(slice_read_of(over_the_wire(to_query(quick, kAsOf)))->purpose == TurnFor::background);
  const auto drop = slice_drop_of(over_the_wire(to_query(SliceDrop{kKey, {3, 2, 1}}, kAsOf)));
  CHECK(drop->key == kKey);
  CHECK(drop->up_to == Generation{3, 2, 1});
  CHECK(slice_token_of(over_the_wire(to_query(SliceToken(1)))) == SliceToken(1));
}

TEST_CASE("slice calls: attribute and label travel in one body, and damage is seen",
          "[target][slice]") {
  const CutObject object;
  const auto order = object.order(1, 5);
  SliceSeal seal{SliceToken(77), true, order.attribute, order.label};
  const auto query = over_the_wire(to_query(seal, kAsOf));
  const std::string body = to_body(seal);
  const auto got = slice_seal_of(query, body).value();
  CHECK(got.token == seal.token);
  CHECK(got.anew);
  CHECK(got.label == order.label);
  CHECK(io::encode(got.attribute) == io::encode(order.attribute));
  for (const std::size_t at : {std::size_t{4}, std::size_t{20}, std::size_t{40}}) {
    std::string damaged = body;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    CHECK(slice_seal_of(query, damaged).error().code == Errc::checksum_mismatch);
  }
  CHECK(slice_seal_of(query, body.substr(0, 3)).error().code == Errc::invalid_argument);
  CHECK(slice_seal_of(query, body.substr(0, 20)).error().code == Errc::invalid_argument);
}

TEST_CASE("slice calls: what is missing or wrong is named", "[target][slice]") {
  SliceWrite write;
  write.token = SliceToken(1);
  write.key = kKey;
  write.geometry = {4, 2, 65536};
  const auto query = to_query(write, kAsOf);
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"token", "12"},
                                                        {"bucket", "x"},
                                                        {"object", ""},
                                                        {"set", "zzzzzzzzzzzzzzzz"},
                                                        {"index", "256"},
                                                        {"index", "6"},
                                                        {"k", "0"},
                                                        {"m", "40"},
                                                        {"block", "1000"},
                                                        {"rank", "-1"},
                                                        {"bytes", "many"}}) {
    api::Query changed = query;
    changed.set(key, value);
    INFO(key << "=" << value);
    CHECK(slice_write_of(changed).error().code == Errc::invalid_argument);
  }
  api::Query full_copy = query;
  full_copy.set("index", "255");
  CHECK(slice_write_of(full_copy)->key.index == io::kFullCopy);
}

}  // namespace slice_messages_test
