// The bytes of a slice's file: frozen, and any damage to them noticed.

#include <algorithm>
#include <cstring>

#include "common/api/bucket.h"
#include "common/base/encoding.h"
#include "common/base/fail_points.h"
#include "common/base/hash.h"
#include "tests/unit/ec_fixture.h"

namespace ec_format_test {

using namespace tarn;
using namespace tarn::ec;
using namespace tarn::ec::testing;

Label sample() {
  Label label;
  label.slice = {kSet, {8, 2}, 3};
  label.bucket_id = BucketId(7);
  label.provider = "ais";
  label.bucket = "photos";
  label.object = "dir/cat.jpg";
  label.generation = {3, 1000, 17};
  label.object_bytes = 5'000'000'000;
  label.xxh64 = 0x45ab6734b21e6968;
  return label;
}

std::string label_bytes(const Label& label) {
  const auto bytes = encode(label);
  REQUIRE(bytes.has_value());
  return *bytes;
}

/// A slice's file: blocks, then its label.
std::string slice_file(const Label& label) {
  const Layout layout = layout_of(label.slice.geometry, label.object_bytes);
  return std::string(layout.blocks_bytes(), 'x') + label_bytes(label);
}

Result<Label> read(std::string_view file) {
  return read_label(bytes_of(file.substr(file.size() - std::min(file.size(), kLabelBytesMax))),
                    file.size());
}

std::string sealed(std::string unit, const SliceId& slice, std::uint64_t stripe) {
  unit.resize(unit.size() + kFooterBytes);
  seal_block(std::as_writable_bytes(std::span(unit)), slice, stripe);
  return unit;
}

TEST_CASE("slice format: the bytes on disk do not change", "[ec][golden]") {
  const SliceId slice{kSet, {8, 2}, 3};
  CHECK(hex(sealed("a unit", slice, 258)) ==
        "6120756e697488776655443322110201000000000000060000000308020154424c4bc1a7bc60");
  CHECK(
      hex(label_bytes(sample())) ==
      "0101887766554433221108020380800407000000000000000361697300000670686f746f730b6469722f6361742e"
      "6a706703e8071180e497d01268691eb23467ab45e3bfe6d5460000005441524e534c430a");
  // Slices of a whole object: parity, padding and all footers of its two stripes.
  std::string all;
  for (const std::string& blocks : encode_object({3, 2, 512}, random_text(1'900, 5))) all += blocks;
  CHECK(hex64(xxh64(all)) == "980924d5fee72647");
}

TEST_CASE("slice format: what is written is read back", "[ec]") {
  Label label = sample();
  label.object_bytes = 100'000;
  for (const std::uint64_t size : {0ULL, 1ULL, 100'000ULL, 3'000'000ULL}) {
    label.object_bytes = size;
    const auto back = read(slice_file(label));
    REQUIRE(back.has_value());
    CHECK(*back == label);
  }
  CHECK(new_set_id() != new_set_id());
}

TEST_CASE("slice format: the longest names fit into a label, longer ones are refused", "[ec]") {
  Label label = sample();
  label.object = std::string(api::kObjectNameBytesMax, 'n');
  label.bucket = std::string(64, 'b');
  label.ns_uuid = label.ns_name = std::string(32, 'u');
  label.object_bytes = 0;
  const auto back = read(slice_file(label));
  REQUIRE(back.has_value());
  CHECK(*back == label);
  label.object = std::string(kLabelBytesMax, 'n');
  const auto refused = encode(label);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::invalid_argument);
}

TEST_CASE("slice format: every flipped bit and every cut of a label is noticed", "[ec]") {
  Label label = sample();
  label.object_bytes = 0;
  const std::string good = slice_file(label);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    INFO("bit " << bit);
    const auto read_back = read(bad);
    REQUIRE_FALSE(read_back.has_value());
    REQUIRE(read_back.error().code == Errc::corrupt);
  }
  for (std::size_t size = 0; size < good.size(); ++size)
    REQUIRE_FALSE(read(std::string_view(good).substr(0, size)).has_value());
}

TEST_CASE("slice format: a file that is too long or too short for its label is refused", "[ec]") {
  Label label = sample();
  label.object_bytes = 100'000;
  const std::string good = slice_file(label);
  REQUIRE(read(good).has_value());
  for (const std::string& bad : {good.substr(1), "x" + good, good.substr(kBlockBytesMin)}) {
    const auto read_back = read(bad);
    REQUIRE_FALSE(read_back.has_value());
    CHECK(read_back.error().code == Errc::corrupt);
    CHECK(read_back.error().message ==
          fmt::format("slice 3 of dir/cat.jpg: the file has {} bytes instead of {}", bad.size(),
                      good.size()));
  }
  const auto none = read("some file that is nobody's slice");
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().message == "the file does not end like a slice: it was cut, or is none");
}

TEST_CASE("slice format: impossible fields are refused even with the right checksum", "[ec]") {
  const auto refused = [](auto change) {
    Label label = sample();
    change(label);
    const auto bytes = encode(label);
    REQUIRE(bytes.has_value());
    const auto read_back = read_label(bytes_of(*bytes), UINT64_MAX);
    REQUIRE_FALSE(read_back.has_value());
    CHECK(read_back.error().code == Errc::corrupt);
    return read_back.error().message;
  };
  CHECK(refused([](Label& label) { label.slice.index = 10; }) == "slice: number 10 of 10");
  CHECK(refused([](Label& label) { label.slice.geometry.m = 0; }).find("at least one") !=
        std::string::npos);
  CHECK(refused([](Label& label) {
          label.slice.geometry.block_bytes = 1000;
        }).find("power of two") != std::string::npos);
  CHECK(refused([](Label& label) { label.object_bytes = UINT64_MAX; }).find("too large") !=
        std::string::npos);
}

TEST_CASE("slice format: every flipped bit and every cut of a block is noticed", "[ec]") {
  const SliceId slice{kSet, {8, 2}, 3};
  const std::string good = sealed("a unit that is short", slice, 258);
  CHECK(check_block(bytes_of(good), slice, 258).has_value());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    const auto checked = check_block(bytes_of(bad), slice, 258);
    INFO("bit " << bit);
    REQUIRE_FALSE(checked.has_value());
    REQUIRE(checked.error().code == Errc::corrupt);
    REQUIRE(checked.error().message == "block 258 of slice 3: checksum is wrong");
  }
  for (std::size_t size = 0; size < good.size(); ++size)
    REQUIRE_FALSE(
        check_block(bytes_of(std::string_view(good).substr(0, size)), slice, 258).has_value());
  REQUIRE_FALSE(check_block(bytes_of(std::string(good.size(), '\0')), slice, 258).has_value());
}

TEST_CASE("slice format: a whole block of another slice, set, place or code is refused, by name",
          "[ec]") {
  const SliceId slice{kSet, {8, 2}, 3};
  const auto error_of = [&](const std::string& block) {
    const auto checked = check_block(bytes_of(block), slice, 258);
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().code == Errc::corrupt);
    return checked.error().message;
  };
  const std::string unit = "a unit";
  const std::string should =
      "here should be block 258 of slice 3 of set 1122334455667788 (8+2, 6 bytes), and is ";
  CHECK(error_of(sealed(unit, {SetId(1), {8, 2}, 3}, 258)) ==
        should + "block 258 of slice 3 of set 0000000000000001 (8+2, 6 bytes)");
  CHECK(error_of(sealed(unit, {kSet, {8, 2}, 4}, 258)) ==
        should + "block 258 of slice 4 of set 1122334455667788 (8+2, 6 bytes)");
  CHECK(error_of(sealed(unit, slice, 257)) ==
        should + "block 257 of slice 3 of set 1122334455667788 (8+2, 6 bytes)");
  CHECK(error_of(sealed(unit, {kSet, {7, 2}, 3}, 258)) ==
        should + "block 258 of slice 3 of set 1122334455667788 (7+2, 6 bytes)");
  CHECK(error_of(sealed(unit, {kSet, {8, 3}, 3}, 258)) ==
        should + "block 258 of slice 3 of set 1122334455667788 (8+3, 6 bytes)");

  // Fields that no block of ours has: changed by hand, the checksum put right.
  const auto with = [&](std::size_t from_end, char value) {
    std::string block = sealed(unit, slice, 258);
    block[block.size() - from_end] = value;
    const std::uint32_t crc = crc32c(std::string_view(block).substr(0, block.size() - 4));
    for (std::size_t i = 0; i < 4; ++i)
      block[block.size() - 4 + i] = static_cast<char>(crc >> (8 * i));
    return block;
  };
  CHECK(error_of(with(8, 'X')) == should + "no block of a slice");
  CHECK(error_of(with(9, 2)) == should + "a block of format 2");
  CHECK(error_of(with(16, 5)) ==
        should + "block 258 of slice 3 of set 1122334455667788 (8+2, 5 bytes)");
}

}  // namespace ec_format_test
