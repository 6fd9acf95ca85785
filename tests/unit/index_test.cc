// Slices in a drive's index, beside the records of objects.

#include "target/drive/index.h"

#include <catch2/catch.hpp>

#include "tests/unit/drive_fixture.h"
#include "tests/unit/run_task.h"

namespace index_test {

using namespace tarn;
using namespace tarn::target;

const BucketId kBucket{7};

io::ObjectRecord slice_record(const SliceKey& key, std::uint64_t counter = 1) {
  io::ObjectRecord record;
  record.kind = io::ObjectRecord::Kind::slice;
  record.generation = {1, 1, counter};
  record.version = 0;
  record.size = 100;
  record.slice = io::Slice{key.set, 2, 1, key.index, 512, 200, {1, 1, 1}};
  if (key.index == io::kFullCopy) record.slice->file_bytes = record.size;
  return record;
}

struct OneIndex {
  test::TemporaryDirectory directory;
  IndexMemory memory{8U << 20U, 8U << 20U};
  std::unique_ptr<Index> index = Index::open(directory.path(), "d", memory).value();

  void put(const SliceKey& key, std::uint64_t counter = 1) {
    IndexBatch batch;
    batch.put_slice(key, slice_record(key, counter));
    REQUIRE(index->commit(std::move(batch)));
  }
  std::vector<SliceKey> listed(BucketId bucket, const std::optional<SliceKey>& after = std::nullopt,
                               std::size_t limit = 100) {
    std::vector<SliceKey> out;
    REQUIRE(index->list_slices(bucket, after, [&](const SliceKey& key, const io::ObjectRecord&) {
      out.push_back(key);
      return out.size() < limit;
    }));
    return out;
  }
};

TEST_CASE("index: slices are found by bucket, name, set and index", "[target][index]") {
  OneIndex f;
  const SliceKey key{kBucket, "a/b", 0x0102030405060708, 2};
  CHECK_FALSE(f.index->find_slice(key)->has_value());
  f.put(key, 3);
  CHECK(f.index->find_slice(key).value() == slice_record(key, 3));
  f.put(key, 4);
  CHECK(f.index->find_slice(key).value()->generation.counter == 4);
  for (const SliceKey& other : std::vector<SliceKey>{{BucketId(8), "a/b", key.set, 2},
                                                     {kBucket, "a/c", key.set, 2},
                                                     {kBucket, "a/b", key.set + 1, 2},
                                                     {kBucket, "a/b", key.set, 1}})
    CHECK_FALSE(f.index->find_slice(other)->has_value());
  IndexBatch batch;
  batch.erase_slice(key);
  REQUIRE(f.index->commit(std::move(batch)));
  CHECK_FALSE(f.index->find_slice(key)->has_value());
}

TEST_CASE("index: names that begin alike keep their slices apart", "[target][index]") {
  OneIndex f;
  std::vector<SliceKey> all;
  // In the order of names: the end of one is below whatever another goes on with.
  for (const std::string name : {"a", "a\x01", "a/", "aa", "b"})
    for (const std::uint64_t set : {std::uint64_t{0}, std::uint64_t{5}, ~std::uint64_t{0}})
      for (const std::uint8_t index : {std::uint8_t{0}, std::uint8_t{1}, io::kFullCopy})
        all.push_back({kBucket, name, set, index});
  for (auto at = all.rbegin(); at != all.rend(); ++at) f.put(*at);
  f.put({BucketId(8), "a", 5, 0});
  CHECK(f.listed(kBucket) == all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto rest = f.listed(kBucket, all[i]);
    CHECK(rest ==
          std::vector<SliceKey>(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end()));
  }
  CHECK(f.listed(kBucket, std::nullopt, 4).size() == 4);
  const auto found = f.index->slices_of(kBucket, "a", 5).value();
  REQUIRE(found.size() == 3);
  for (const auto& [key, record] : found) {
    CHECK(key.name == "a");
    CHECK(key.set == 5);
    CHECK(record.slice->index == key.index);
  }
  CHECK(f.index->slices_of(kBucket, "a", 6).value().empty());
  CHECK(f.index->slices_of(kBucket, "", 5).value().empty());
}

TEST_CASE("index: objects and slices do not mix, and a bucket goes with both", "[target][index]") {
  OneIndex f;
  const SliceKey key{kBucket, "x", 1, 0};
  const SliceKey other{BucketId(8), "x", 1, 0};
  f.put(key);
  f.put(other);
  io::ObjectRecord object;
  object.generation = {1, 1, 9};
  IndexBatch batch;
  batch.put_record(kBucket, "x", object);
  REQUIRE(f.index->commit(std::move(batch)));
  int objects = 0;
  REQUIRE(f.index->scan([&](BucketId, std::string_view, const io::ObjectRecord& record) {
    ++objects;
    CHECK(record == object);
  }));
  CHECK(objects == 1);
  int slices = 0;
  REQUIRE(f.index->scan_slices([&](const SliceKey&, const io::ObjectRecord&) {
    ++slices;
    return true;
  }));
  CHECK(slices == 2);
  REQUIRE(f.index->erase_bucket(kBucket));
  CHECK_FALSE(f.index->find(kBucket, "x")->has_value());
  CHECK_FALSE(f.index->find_slice(key)->has_value());
  CHECK(f.index->find_slice(other)->has_value());
}

TEST_CASE("index: a record under a key of the other kind is corrupt", "[target][index]") {
  OneIndex f;
  const SliceKey key{kBucket, "x", 1, 0};
  IndexBatch batch;
  batch.put_record(kBucket, "x", slice_record(key));
  batch.put_slice(key, io::ObjectRecord{});
  batch.put_slice({kBucket, "y", 1, 1}, slice_record(key));
  REQUIRE(f.index->commit(std::move(batch)));
  CHECK(f.index->find(kBucket, "x").error().code == Errc::corrupt);
  CHECK(f.index->find_slice(key).error().code == Errc::corrupt);
  CHECK(f.index->find_slice({kBucket, "y", 1, 1}).error().code == Errc::corrupt);
  CHECK_FALSE(f.index->list(kBucket, "", "", [](auto, const auto&) { return Index::Step{}; }));
  CHECK_FALSE(f.index->scan([](auto, auto, const auto&) {}));
  CHECK_FALSE(f.index->scan_slices([](const auto&, const auto&) { return true; }));
}

}  // namespace index_test
