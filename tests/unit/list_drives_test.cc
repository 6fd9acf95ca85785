#include <catch2/catch.hpp>

#include "common/base/clock.h"
#include "target/request/list_page.h"
#include "tests/unit/run_task.h"

namespace list_drives_test {

using namespace tarn;
using namespace tarn::target;

/// Two drives of one target, written to directly, not by the store.
struct TwoDrives {
  test::TemporaryDirectory directory;
  IndexMemory memory{8U << 20U, 8U << 20U};
  test::TaskRunner run;
  std::optional<ObjectStore> store;
  std::uint64_t counter = 0;

  explicit TwoDrives(bool may_hold_misplaced) {
    std::vector<std::unique_ptr<Drive>> drives;
    for (const char* name : {"d1", "d2"}) {
      Drive::Options options;
      options.path = (directory.path() / name).string();
      options.threads = 2;
      options.may_hold_misplaced = may_hold_misplaced;
      std::filesystem::create_directories(options.path);
      drives.push_back(Drive::open(std::move(options), memory).value());
    }
    store.emplace(std::move(drives), std::map<std::string, std::string>());
  }

  Task<Status> put_task(std::size_t drive, std::string name, std::uint64_t version) {
    Drive& on = *store->drives().at(drive);
    CO_TRY(auto file, co_await on.create(std::uint64_t{0}, true));
    io::ObjectAttribute attribute;
    attribute.bucket_id = BucketId(1);
    attribute.bucket.name = "b";
    attribute.name = name;
    attribute.record.generation = {1, 1, ++counter};
    attribute.record.file = file->name();
    attribute.record.version = version;
    CO_TRY(auto old, co_await on.find(BucketId(1), name));
    co_return co_await on.publish(*file, {attribute, {}, old, false, {}});
  }
  void put(std::size_t drive, std::string name, std::uint64_t version = 1) {
    REQUIRE(run(put_task(drive, std::move(name), version)));
  }
  void remove(std::size_t drive, const std::string& name) {
    io::ObjectRecord tombstone;
    tombstone.kind = io::ObjectRecord::Kind::tombstone;
    tombstone.generation = {1, 1, ++counter};
    tombstone.modified_ns = system_clock().wall_time().count();
    REQUIRE(run(store->drives().at(drive)->remove(BucketId(1), name, tombstone, true)));
  }

  /// "name=version" of each entry, pages joined.
  std::vector<std::string> list(std::size_t limit, bool by_directory = false,
                                const std::string& prefix = "") {
    ListPlan plan;
    plan.bucket.id = BucketId(1);
    plan.prefix = prefix;
    plan.by_directory = by_directory;
    plan.fields = {.size = true, .version = true};
    plan.node = "tAAAA";
    std::vector<std::string> out;
    std::string after;
    for (bool more = true; more;) {
      const auto page = run(list_page(*store, plan, after, limit)).value();
      REQUIRE(page.entries.size() <= limit);
      for (const auto& entry : page.entries) {
        const auto read = api::unpack_entry(entry.bytes).value();
        out.push_back(std::string(read.name) +
                      (read.version.empty() ? "" : "=" + std::string(read.version)));
      }
      more = page.more;
      if (more) after = std::string(page.entries.back().name);
    }
    return out;
  }
};

using Names = std::vector<std::string>;

TEST_CASE("a target's list joins its drives, page by page", "[target][list]") {
  for (const bool may_hold_misplaced : {false, true}) {
    CAPTURE(may_hold_misplaced);
    TwoDrives drives(may_hold_misplaced);
    for (const char* name : {"a", "dir/1", "dir/sub/2", "z"}) drives.put(0, name);
    for (const char* name : {"b", "dir/0", "dir0", "e/1"}) drives.put(1, name);
    drives.put(0, "gone");
    drives.remove(0, "gone");
    drives.put(0, "emptied/1");
    drives.remove(0, "emptied/1");
    for (const std::size_t limit : {1U, 2U, 3U, 100U}) {
      CAPTURE(limit);
      CHECK(drives.list(limit) ==
            Names{"a=1", "b=1", "dir/0=1", "dir/1=1", "dir/sub/2=1", "dir0=1", "e/1=1", "z=1"});
      CHECK(drives.list(limit, true) == Names{"a=1", "b=1", "dir/", "dir0=1", "e/", "z=1"});
      CHECK(drives.list(limit, true, "dir/") == Names{"dir/0=1", "dir/1=1", "dir/sub/"});
      CHECK(drives.list(limit, false, "dir") ==
            Names{"dir/0=1", "dir/1=1", "dir/sub/2=1", "dir0=1"});
      CHECK(drives.list(limit, true, "nothing").empty());
    }
  }
}

TEST_CASE("of a name on two drives the newest version is listed, and none that was deleted since",
          "[target][list]") {
  TwoDrives drives(true);
  drives.put(0, "x", 1);
  drives.put(1, "x", 2);
  drives.put(1, "y", 1);
  drives.put(0, "y", 2);
  drives.put(0, "deleted", 1);
  drives.remove(1, "deleted");
  drives.put(0, "only/deleted", 1);
  drives.remove(1, "only/deleted");
  CHECK(drives.list(100) == Names{"x=2", "y=2"});
  CHECK(drives.list(1) == Names{"x=2", "y=2"});
  CHECK(drives.list(100, true) == Names{"x=2", "y=2"});
}

}  // namespace list_drives_test
