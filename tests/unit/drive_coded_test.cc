// Records of coded objects on a drive: their files are empty, all else is as for other objects.

#include "common/base/fail_points.h"
#include "tests/unit/drive_fixture.h"

namespace drive_coded_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;

const BucketId kBucket{1};
constexpr std::uint64_t kSize = 5'000'000'000;

io::Coding coding() {
  io::Coding out;
  out.k = 2;
  out.m = 1;
  out.block_bytes = 65536;
  out.set = 0x1122334455667788;
  out.written = {1, 1, 1};
  out.holders = {"t1", "t2", "t3"};
  return out;
}

io::ObjectAttribute coded_attribute(Fixture& f, const std::string& name) {
  io::ObjectAttribute attribute;
  attribute.bucket_id = kBucket;
  attribute.bucket.name = "b";
  attribute.name = name;
  attribute.record.generation = {1, 1, ++f.counter};
  attribute.record.size = kSize;
  attribute.record.xxh64 = 77;  // of the object's bytes, which are not here
  attribute.record.coding = coding();
  return attribute;
}

Task<Status> put_coded_task(Fixture& f, std::string name) {
  CO_TRY(auto file, co_await f.drive->create(0, true));
  io::ObjectAttribute attribute = coded_attribute(f, name);
  attribute.record.file = file->name();
  CO_TRY(auto old, co_await f.drive->find(kBucket, name));
  co_return co_await f.drive->publish(*file, {attribute, {}, old, false, f.durability});
}
Status put_coded(Fixture& f, const std::string& name) { return wait_for(put_coded_task(f, name)); }

std::optional<io::ObjectRecord> find(Fixture& f, const std::string& name) {
  return wait_for(f.drive->find(kBucket, name)).value();
}

TEST_CASE("coded: a record has an empty file, and opens with all checksums, none",
          "[target][drive][coded]") {
  Fixture f;
  REQUIRE(put_coded(f, "a"));
  REQUIRE(f.data_files().size() == 1);
  CHECK(std::filesystem::file_size(f.data_files().front()) == 0);
  const auto object = wait_for(f.drive->open_object(kBucket, "a")).value();
  REQUIRE(object);
  CHECK(object->record().size == kSize);
  CHECK(object->record().coding == coding());
  CHECK(object->file_bytes() == 0);
  CHECK(object->has_checksums());
  CHECK((**f.get("a")).empty());
}

TEST_CASE("coded: a record is adopted, and replaces and is replaced like any other",
          "[target][drive][coded]") {
  Fixture f;
  REQUIRE(f.put("a", "plain"));
  REQUIRE(put_coded(f, "a"));
  REQUIRE(put_coded(f, "b"));
  REQUIRE(f.put("b", "plain"));
  f.quiesce();
  CHECK(f.data_files().size() == 2);
  f.lose_index();
  f.open();
  CHECK(f.drive->recovery().adopted == 2);
  CHECK(f.drive->recovery().bytes == 5);  // those of the plain one
  CHECK(find(f, "a")->coding == coding());
  CHECK(wait_for(f.drive->open_object(kBucket, "a")).value()->has_checksums());
  CHECK(**f.get("b") == "plain");
  f.open();
  CHECK(f.drive->recovery().records == 2);
  CHECK(f.drive->recovery().adopted == 0);
}

TEST_CASE("coded: a record whose file has bytes is not adopted and not opened",
          "[target][drive][coded]") {
  Fixture f;
  REQUIRE(put_coded(f, "a"));
  std::filesystem::resize_file(f.data_files().front(), 10);
  CHECK(wait_for(f.drive->open_object(kBucket, "a")).error().code == Errc::corrupt);
  f.lose_index();
  f.open();
  CHECK_FALSE(find(f, "a"));
}

TEST_CASE("coded: other holders are a change of metadata", "[target][drive][coded]") {
  Fixture f;
  REQUIRE(put_coded(f, "a"));
  io::ObjectAttribute attribute = coded_attribute(f, "a");
  attribute.record.file = find(f, "a")->file;
  attribute.record.coding->holders = {"t1", "", "t4"};
  REQUIRE(wait_for(f.drive->patch(attribute)));
  CHECK(find(f, "a") == attribute.record);
  f.lose_index();
  f.open();
  CHECK(find(f, "a") == attribute.record);
}

TEST_CASE("coded: a deleted record does not come back", "[target][drive][coded]") {
  Fixture f;
  REQUIRE(put_coded(f, "a"));
  REQUIRE(f.remove("a"));
  CHECK(f.data_files().empty());
  CHECK_FALSE(find(f, "a")->coding);
  f.open();
  CHECK(find(f, "a")->kind == io::ObjectRecord::Kind::tombstone);
  REQUIRE(put_coded(f, "b"));
  f.drive->forget_bucket(kBucket);
  f.quiesce();
  CHECK(f.data_files().empty());
}

TEST_CASE("coded: acknowledged before its sync, a record is whole when its file is empty",
          "[target][drive][coded][nosync]") {
  Fixture f;
  f.durability = cluster::Durability::nosync;
  fail_point::set("nosync.before_sync=error");
  REQUIRE(put_coded(f, "a"));
  f.quiesce();
  fail_point::set("");
  f.open();
  CHECK(f.drive->recovery().torn_files == 0);
  f.lose_index();
  f.open();
  CHECK(find(f, "a")->coding == coding());
}

}  // namespace drive_coded_test
