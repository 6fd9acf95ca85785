#include "common/io/object_attribute.h"

#include <catch2/catch.hpp>

#include "common/base/encoding.h"

using namespace tarn;

namespace {

io::ObjectAttribute sample() {
  io::ObjectAttribute attribute;
  attribute.bucket_id = BucketId(7);
  attribute.bucket = {"ais", "", "", "photos"};
  attribute.name = "dir/cat.jpg";
  attribute.record.generation = {3, 1000, 17};
  attribute.record.file = {42, 0x00c0ffee00c0ffee};
  attribute.record.size = 5'000'000'000;
  attribute.record.xxh64 = 0x45ab6734b21e6968;
  attribute.record.version = 2;
  attribute.record.modified_ns = 1'700'000'000'000'000'000;
  attribute.record.custom = {{"Content-Type", "image/jpeg"}};
  return attribute;
}

}  // namespace

TEST_CASE("attribute: what is written is read back", "[io][attribute]") {
  const auto attribute = sample();
  const auto back = io::decode_attribute(io::encode(attribute));
  REQUIRE(back.has_value());
  CHECK(*back == attribute);
  const auto record = io::decode_record(io::encode(attribute.record));
  REQUIRE(record.has_value());
  CHECK(*record == attribute.record);
}

TEST_CASE("attribute: the bytes on disk do not change", "[io][attribute][golden]") {
  CHECK(hex(io::encode(sample())) ==
        "0107000000000000000361697300000670686f746f730b6469722f6361742e6a7067010103e807112aeeffc000"
        "eeffc00080e497d01268691eb23467ab450200002a36fe9c9717010c436f6e74656e742d547970650a696d6167"
        "652f6a7065671c0c49b4");
}

TEST_CASE("attribute: every flipped bit is noticed", "[io][attribute]") {
  const std::string good = io::encode(sample());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    INFO("bit " << bit);
    REQUIRE_FALSE(io::decode_attribute(bad).has_value());
  }
}

TEST_CASE("attribute: every truncation is noticed", "[io][attribute]") {
  const std::string good = io::encode(sample());
  for (std::size_t size = 0; size < good.size(); ++size)
    REQUIRE_FALSE(io::decode_attribute(std::string_view(good).substr(0, size)).has_value());
}

TEST_CASE("attribute: the largest name and metadata fit", "[io][attribute]") {
  auto attribute = sample();
  attribute.name = std::string(api::kObjectNameBytesMax, 'n');
  attribute.bucket = {"azure", std::string(32, 'u'), std::string(32, 'n'), std::string(64, 'b')};
  attribute.record.custom = {{"k", std::string(2048, 'v')}};
  CHECK(io::encode(attribute).size() <= io::kAttributeBytesMax);
}
