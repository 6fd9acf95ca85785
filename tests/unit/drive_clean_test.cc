// Files that a clean-up takes away from a drive that is in use, and those that it leaves.

#include <filesystem>
#include <fstream>

#include "common/base/fail_points.h"
#include "tests/unit/drive_fixture.h"

namespace drive_clean_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;

const BucketId kBucket{1};

Cleaned clean(Fixture& f, const CleanOrder& order = {}) {
  const auto known = wait_for(f.drive->known_files(order.dead));
  REQUIRE(known.has_value());
  Cleaned sum;
  for (const std::uint32_t directory : known->directories) {
    const auto cleaned = wait_for(f.drive->clean(directory, *known, order));
    REQUIRE(cleaned.has_value());
    sum.files += cleaned->files;
    sum.bytes += cleaned->bytes;
  }
  return sum;
}

/// Makes a file as left by an upload whose end could not be carried out.
void make_work_file(const Fixture& f, const std::string& name, const std::string& content) {
  std::ofstream(f.directory.path() + "/data/00000001/" + name) << content;
}

TEST_CASE("clean-up: an upload that nobody goes on with goes, one under way stays",
          "[target][drive][clean]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  auto upload = wait_for(f.drive->create(4, true));
  REQUIRE(upload.has_value());
  make_work_file(f, "00000000000000aa", "left");
  make_work_file(f, "not-of-tarn", "kept");
  CHECK(clean(f, {.dead = {}, .only = {kBucket}}).files == 0);  // it says not whose it is
  const Cleaned cleaned = clean(f);
  CHECK(cleaned.files == 1);
  CHECK(cleaned.bytes == 4);
  CHECK(f.data_files().size() == 3);
  CHECK(**f.get("a") == "one");
  upload->reset();
  f.quiesce();
  CHECK(f.data_files().size() == 2);
  CHECK(clean(f).files == 0);
}

TEST_CASE("clean-up: a replaced version goes that could not be removed at the time",
          "[target][drive][clean]") {
  Fixture f;
  REQUIRE(f.put("a", "before"));
  f.files->fail_remove = true;
  REQUIRE(f.put("a", "after"));
  f.quiesce();
  f.files->fail_remove = false;
  REQUIRE(f.data_files().size() == 2);
  CHECK(clean(f, {.dead = {}, .only = {BucketId(7)}}).files == 0);
  const Cleaned cleaned = clean(f, {.dead = {}, .only = {kBucket}});
  CHECK(cleaned.files == 1);
  CHECK(cleaned.bytes == 6);
  CHECK(**f.get("a") == "after");
  REQUIRE(f.remove("a"));  // it has no note of the file any more
  CHECK(f.data_files().empty());
}

TEST_CASE("clean-up: files of a destroyed bucket go, of one that nobody knows they stay",
          "[target][drive][clean]") {
  Fixture f;
  for (int i = 0; i < 5; ++i) REQUIRE(f.put("n" + std::to_string(i), "content"));
  f.files->fail_remove = true;
  f.drive->forget_bucket(kBucket);
  f.quiesce();
  f.files->fail_remove = false;
  REQUIRE(f.data_files().size() == 5);
  CHECK(clean(f).files == 0);  // a start would take them for objects
  CHECK(clean(f, {.dead = {kBucket}, .only = {}}).files == 5);
  CHECK(f.data_files().empty());
}

TEST_CASE("clean-up: records of a destroyed bucket are noticed", "[target][drive][clean]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  const auto known = wait_for(f.drive->known_files({kBucket, BucketId(7)}));
  REQUIRE(known.has_value());
  CHECK(known->dead == std::set<BucketId>{kBucket});
  CHECK(known->named.size() == 1);
}

TEST_CASE("clean-up: the version before one that is not synced yet stays",
          "[target][drive][clean][nosync]") {
  Fixture f;
  REQUIRE(f.put("a", "before"));
  f.durability = cluster::Durability::nosync;
  fail_point::set("nosync.before_sync=error");  // as if it were still to come
  REQUIRE(f.put("a", std::string(2 * kBlockBytes, 'z')));
  REQUIRE(f.put("new", "n"));
  f.quiesce();
  fail_point::set("");
  CHECK(clean(f).files == 0);
  REQUIRE(f.data_files().size() == 3);
  for (const auto& file : f.data_files())
    if (std::filesystem::file_size(file) > kBlockBytes)
      std::filesystem::resize_file(file, kBlockBytes);  // torn by a power cut
  f.open();
  CHECK(**f.get("a") == "before");
  CHECK(**f.get("new") == "n");
}

TEST_CASE("loading an index counts the objects of a bucket", "[target][drive][clean]") {
  Fixture f;
  for (int i = 0; i < 5; ++i) REQUIRE(f.put("n" + std::to_string(i), "content"));
  REQUIRE(f.remove("n3"));
  const auto loaded = wait_for(f.drive->load_index(kBucket, ""));
  REQUIRE(loaded.has_value());
  CHECK(loaded->objects == 4);
  CHECK(loaded->bytes == 28);
  CHECK_FALSE(loaded->more);
  CHECK(wait_for(f.drive->load_index(kBucket, "n2")).value().objects == 1);
  CHECK(wait_for(f.drive->load_index(BucketId(2), "")).value().objects == 0);
}

}  // namespace drive_clean_test
