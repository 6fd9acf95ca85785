#include "common/io/object_attribute.h"

#include <functional>

#include <catch2/catch.hpp>

#include "common/base/encoding.h"
#include "common/base/packed.h"

namespace object_attribute_test {

using namespace tarn;

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

/// A 2+1 object with a full copy: target t2 has two slices, no target has the third.
io::ObjectAttribute coded_sample() {
  auto attribute = sample();
  io::Coding& coding = attribute.record.coding.emplace();
  coding.layout = io::Coding::Layout::whole;
  coding.k = 2;
  coding.m = 1;
  coding.block_bytes = 65536;
  coding.set = 0x1122334455667788;
  coding.written = {3, 1000, 16};
  coding.holders = {"t2", "", "t1"};
  coding.full_copy = "t2";
  return attribute;
}

io::ObjectAttribute slice_sample() {
  auto attribute = sample();
  io::ObjectRecord& record = attribute.record;
  record.kind = io::ObjectRecord::Kind::slice;
  record.version = 0;
  record.custom.clear();
  record.slice = io::Slice{0x1122334455667788, 2, 1, 2, 65536, 2'501'300'000, {3, 1000, 16}};
  return attribute;
}

/// True if the record is taken when it is read back from its encoding.
bool is_taken(const io::ObjectRecord& record) {
  return io::decode_record(io::encode(record)).has_value();
}

/// A coded record by hand up to the ids, to say of holders what write_record() never would.
std::string coded_with(std::uint8_t kind, const std::vector<std::string>& ids,
                       const std::vector<std::uint8_t>& holders) {
  PackedWriter out;
  out.byte(2);
  out.byte(kind);
  for (int i = 0; i < 4; ++i) out.number(1);  // generation, directory
  out.fixed64(1);
  out.number(5);
  out.fixed64(6);
  out.number(1);
  out.fixed64(7);
  out.number(0);
  out.byte(1);
  out.byte(1);
  out.byte(1);
  out.number(65536);
  out.fixed64(9);
  for (int i = 0; i < 3; ++i) out.number(1);
  out.number(ids.size());
  for (const std::string& id : ids) out.text(id);
  for (const std::uint8_t holder : holders) out.byte(holder);
  return out.finish();
}

TEST_CASE("attribute: what is written is read back", "[io][attribute]") {
  for (const auto& attribute : {sample(), coded_sample(), slice_sample()}) {
    const auto back = io::decode_attribute(io::encode(attribute));
    REQUIRE(back.has_value());
    CHECK(*back == attribute);
    const auto record = io::decode_record(io::encode(attribute.record));
    REQUIRE(record.has_value());
    CHECK(*record == attribute.record);
  }
}

TEST_CASE("attribute: the bytes on disk do not change", "[io][attribute][golden]") {
  CHECK(hex(io::encode(sample())) ==
        "0107000000000000000361697300000670686f746f730b6469722f6361742e6a7067010103e807112aeeffc000"
        "eeffc00080e497d01268691eb23467ab450200002a36fe9c9717010c436f6e74656e742d547970650a696d6167"
        "652f6a7065671c0c49b4");
}

TEST_CASE("attribute: the bytes of coded objects and slices on disk do not change",
          "[io][attribute][golden]") {
  CHECK(hex(io::encode(coded_sample())) ==
        "0107000000000000000361697300000670686f746f730b6469722f6361742e6a7067020103e807112aeeffc0"
        "00eeffc00080e497d01268691eb23467ab450200002a36fe9c9717010c436f6e74656e742d547970650a696d"
        "6167652f6a706567020201808004887766554433221103e80710020274320274310100020139f7daf9");
  CHECK(hex(io::encode(slice_sample())) ==
        "0107000000000000000361697300000670686f746f730b6469722f6361742e6a7067020303e807112aeeffc0"
        "00eeffc00080e497d01268691eb23467ab450000002a36fe9c9717008877665544332211020102808004a09e"
        "dba80903e80710d216ef04");
}

TEST_CASE("attribute: every flipped bit is noticed", "[io][attribute]") {
  for (const auto& attribute : {sample(), coded_sample(), slice_sample()}) {
    const std::string good = io::encode(attribute);
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      INFO("bit " << bit);
      REQUIRE_FALSE(io::decode_attribute(bad).has_value());
    }
  }
}

TEST_CASE("attribute: every truncation is noticed", "[io][attribute]") {
  for (const auto& attribute : {sample(), coded_sample(), slice_sample()}) {
    const std::string good = io::encode(attribute);
    for (std::size_t size = 0; size < good.size(); ++size)
      REQUIRE_FALSE(io::decode_attribute(std::string_view(good).substr(0, size)).has_value());
    // Cut before the checksum was taken, so that it is right.
    for (std::size_t size = 0; size < good.size() - 4; ++size) {
      PackedWriter cut;
      for (std::size_t i = 0; i < size; ++i) cut.byte(static_cast<std::uint8_t>(good[i]));
      REQUIRE_FALSE(io::decode_attribute(cut.finish()).has_value());
    }
  }
}

TEST_CASE("attribute: the largest name and metadata fit", "[io][attribute]") {
  auto attribute = sample();
  attribute.name = std::string(api::kObjectNameBytesMax, 'n');
  attribute.bucket = {"azure", std::string(32, 'u'), std::string(32, 'n'), std::string(64, 'b')};
  attribute.record.custom = {{"k", std::string(2048, 'v')}};
  CHECK(io::encode(attribute).size() <= io::kAttributeBytesMax);
}

TEST_CASE("attribute: the largest coding fits beside ordinary names", "[io][attribute]") {
  auto attribute = coded_sample();
  io::Coding& coding = *attribute.record.coding;
  const std::size_t without = io::encode(sample()).size();
  coding.k = 24;
  coding.m = 8;
  coding.holders.clear();
  for (int i = 0; i < 32; ++i) coding.holders.push_back(fmt::format("t{:07d}", i));
  coding.full_copy = "t0000099";
  const std::string bytes = io::encode(attribute);
  CHECK(bytes.size() - without < 400);
  CHECK(io::decode_attribute(bytes).value() == attribute);
}

TEST_CASE("attribute: what is no coding or no slice is refused", "[io][attribute]") {
  using Change = std::function<void(io::Coding&)>;
  for (const Change& change : std::vector<Change>{
           [](io::Coding& c) { c.layout = io::Coding::Layout(0); },
           [](io::Coding& c) { c.layout = io::Coding::Layout(3); },
           [](io::Coding& c) { c.k = 0; },
           [](io::Coding& c) { c.m = 0; },
           [](io::Coding& c) { c.holders.pop_back(); },
           [](io::Coding& c) { c.holders.emplace_back("t3"); },
           [](io::Coding& c) {
             c.k = 32;
             c.holders.assign(33, "t");
           },
           [](io::Coding& c) { c.block_bytes = 0; },
           [](io::Coding& c) { c.block_bytes = 256; },
           [](io::Coding& c) { c.block_bytes = 65535; },
           [](io::Coding& c) { c.block_bytes = 128 * 1024; },
       }) {
    auto record = coded_sample().record;
    change(*record.coding);
    CHECK_FALSE(io::check(*record.coding));
    CHECK_FALSE(is_taken(record));
  }
  using SliceChange = std::function<void(io::ObjectRecord&)>;
  for (const SliceChange& change : std::vector<SliceChange>{
           [](io::ObjectRecord& r) { r.slice->k = 0; },
           [](io::ObjectRecord& r) { r.slice->m = 0; },
           [](io::ObjectRecord& r) { r.slice->k = 32; },
           [](io::ObjectRecord& r) { r.slice->index = 3; },
           [](io::ObjectRecord& r) { r.slice->index = 254; },
           [](io::ObjectRecord& r) { r.slice->block_bytes = 1000; },
           [](io::ObjectRecord& r) {
             r.slice->index = io::kFullCopy;
           },  // not as large as the object
           [](io::ObjectRecord& r) { r.version = 1; },
           [](io::ObjectRecord& r) { r.custom.emplace_back("a", "b"); },
           [](io::ObjectRecord& r) { r.slice.reset(); },
       }) {
    auto record = slice_sample().record;
    change(record);
    CHECK_FALSE(is_taken(record));
  }
  auto full_copy = slice_sample().record;
  full_copy.slice->index = io::kFullCopy;
  full_copy.slice->file_bytes = full_copy.size;
  CHECK(is_taken(full_copy));
}

TEST_CASE("attribute: holders are written one way only", "[io][attribute]") {
  const auto taken = [](std::uint8_t kind, const std::vector<std::string>& ids,
                        const std::vector<std::uint8_t>& holders) {
    return io::decode_record(coded_with(kind, ids, holders)).has_value();
  };
  CHECK(taken(1, {"a", "b"}, {1, 2, 0}));
  CHECK(taken(1, {"a", "b"}, {1, 1, 2}));
  CHECK(taken(1, {"a"}, {0, 1, 0}));
  CHECK(taken(1, {}, {0, 0, 0}));
  CHECK_FALSE(taken(1, {"a", "b"}, {2, 1, 0}));  // not in the order of their use
  CHECK_FALSE(taken(1, {"a", "b"}, {1, 1, 0}));  // one is not used
  CHECK_FALSE(taken(1, {"a", "b"}, {1, 3, 2}));  // there is no third
  CHECK_FALSE(taken(1, {"a", "a"}, {1, 2, 0}));  // twice
  CHECK_FALSE(taken(1, {"a", ""}, {1, 2, 0}));   // none
  CHECK_FALSE(taken(1, {"a"}, {1, 0}));          // none said of the full copy
  CHECK_FALSE(taken(1, {"a"}, {1, 0, 0, 0}));    // more than there can be
  CHECK_FALSE(taken(1, {"a", "b", "c", "d"}, {1, 2, 3}));
  CHECK_FALSE(taken(2, {"a"}, {1, 0, 0}));  // no tombstone has this format
  CHECK_FALSE(taken(4, {"a"}, {1, 0, 0}));
}

TEST_CASE("attribute: only what is coded has a file of another size, and another format",
          "[io][attribute]") {
  CHECK(sample().record.file_bytes() == 5'000'000'000);
  CHECK(coded_sample().record.file_bytes() == 0);
  CHECK(slice_sample().record.file_bytes() == 2'501'300'000);
  CHECK(coded_sample().record.etag() == sample().record.etag());
  CHECK(io::encode(sample().record)[0] == 1);
  CHECK(io::encode(coded_sample().record)[0] == 2);
  // A tombstone that is made of a coded record is one like any other.
  auto tombstone = coded_sample().record;
  tombstone.kind = io::ObjectRecord::Kind::tombstone;
  CHECK(io::encode(tombstone)[0] == 1);
  CHECK_FALSE(io::decode_record(io::encode(tombstone)).value().coding);
}

}  // namespace object_attribute_test
