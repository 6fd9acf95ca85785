#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/base/hash.h"
#include "target/store/object_store.h"
#include "tests/unit/run_task.h"

namespace evicted_drives_test {

using namespace tarn;
using namespace tarn::target;

constexpr BucketId kBucket{1};
constexpr Generation kUpto{1, 1, 1000};

/// A store of three drives of a cache.
struct Cache {
  std::array<test::TemporaryDirectory, 3> directories;
  IndexMemory memory{8U << 20U, 8U << 20U};
  test::TaskRunner run;
  std::optional<ObjectStore> store;
  cluster::BucketRecord bucket;
  std::uint64_t counter = 0;

  Cache() {
    bucket.id = kBucket;
    bucket.name.provider = "aws";
    bucket.name.name = "b";
    std::vector<DrivePlace> places;
    places.reserve(directories.size());
    for (const auto& directory : directories) places.push_back({directory.path().string(), 0});
    std::vector<std::unique_ptr<Drive>> drives;
    for (const auto& directory : directories) {
      Drive::Options options;
      options.path = directory.path().string();
      options.threads = 2;
      options.places = places;
      drives.push_back(Drive::open(std::move(options), memory).value());
    }
    store.emplace(std::move(drives), std::map<std::string, std::string>());
  }
  [[nodiscard]] ObjectName name(const std::string& object) const {
    return {kBucket, bucket.placement_name(object), object, 0, true};
  }
  /// A name that lives on `first`, and where that is away on `second`.
  [[nodiscard]] std::string name_for(const Drive& first, const Drive& second) {
    for (int i = 0; i < 10'000; ++i) {
      const std::string object = "n" + std::to_string(i);
      if (store->drive_for(name(object)) != &first) continue;
      const auto order = drive_order(name(object));
      if (order.at(1) == second.path()) return object;
    }
    FAIL("no such name");
    return "";
  }
  [[nodiscard]] std::vector<std::string> drive_order(const ObjectName& of) const {
    std::vector<cluster::Candidate> candidates;
    std::vector<std::string> paths;
    for (const auto& [candidate, drive] : store->placed_drives()) {
      candidates.push_back(candidate);
      paths.push_back(drive->path());
    }
    std::vector<std::string> out;
    for (const std::size_t i :
         cluster::placement_order(candidates, cluster::placement_digest(of.uname)))
      out.push_back(paths[i]);
    return out;
  }
  Task<Status> put_task(std::shared_ptr<Drive> drive, std::string object) {
    const ObjectName at = name(object);
    const std::string content = "x";
    CO_TRY(auto file, co_await drive->create(content.size(), true));
    CO_TRY_OK(co_await drive->write(*file, std::as_bytes(std::span(content)), 0).get());
    io::ObjectAttribute attribute;
    attribute.bucket_id = kBucket;
    attribute.bucket = bucket.placed_as();
    attribute.name = object;
    attribute.record.generation = {1, 1, ++counter};
    attribute.record.file = file->name();
    attribute.record.size = content.size();
    attribute.record.xxh64 = xxh64(content);
    co_return co_await store->publish(at, *file, attribute, {crc32c(content)}, {},
                                      cluster::Durability::full);
  }
  void put_on(const std::shared_ptr<Drive>& drive, const std::string& object) {
    REQUIRE(run(put_task(drive, object)));
  }
  std::size_t records_of(const std::string& object) {
    return run(store->find_all(name(object))).value().size();
  }
};

TEST_CASE("evicted drives: names of a cache live on the next drive", "[target][evict]") {
  Cache f;
  const auto drives = f.store->drives();
  const std::string object = f.name_for(*drives[0], *drives[1]);
  ObjectName kept = f.name(object);
  kept.is_refetchable = false;
  f.store->lose(*drives[0], "it is away");
  CHECK(f.store->drive_for(f.name(object)) == nullptr);
  CHECK(f.store->check_not_away(f.name(object)).error().code == Errc::unavailable);

  f.store->set_evicted(drives[0]->path(), {{kBucket, kUpto}});
  CHECK(f.store->drive_for(f.name(object)) == drives[1].get());
  CHECK(f.store->check_not_away(f.name(object)));
  CHECK(f.records_of(object) == 0);
  CHECK(f.store->evictions() == 1);
  SECTION("others do not") {
    CHECK(f.store->drive_for(kept) == nullptr);
    ObjectName elsewhere = f.name(object);
    elsewhere.bucket = BucketId{2};
    CHECK(f.store->drive_for(elsewhere) == nullptr);
  }
  SECTION("another drive is away, too") {
    f.store->lose(*drives[1], "it is away");
    CHECK(f.store->drive_for(f.name(object)) == nullptr);
    f.store->set_evicted(drives[1]->path(), {{kBucket, {2, 1, 1}}});
    CHECK(f.store->drive_for(f.name(object)) == drives[2].get());
  }
  SECTION("until it is back") {
    f.put_on(drives[1], object);
    f.store->attach(drives[0]);
    CHECK(f.store->drive_for(f.name(object)) == drives[0].get());
    CHECK(f.store->evicted_from(drives[0]->path()).empty());
    CHECK(f.records_of(object) == 1);
  }
}

TEST_CASE("evicted drives: what was passed on to a drive that is away is no absent name",
          "[target][evict]") {
  Cache f;
  const auto drives = f.store->drives();
  const std::string object = f.name_for(*drives[0], *drives[1]);
  const auto lose = [&f](Drive& drive) {
    f.store->mirror().loses(drive);
    f.store->lose(drive, "it is away");
  };
  lose(*drives[0]);
  f.store->set_evicted(drives[0]->path(), {{kBucket, kUpto}});
  // The second drive has no room.
  f.put_on(drives[2], object);
  lose(*drives[2]);
  CHECK(f.store->drive_for(f.name(object)) == drives[1].get());
  CHECK(f.store->check_not_away(f.name(object)).error().code == Errc::unavailable);
  f.store->set_evicted(drives[2]->path(), {{kBucket, kUpto}});
  CHECK(f.store->check_not_away(f.name(object)));
}

TEST_CASE("evicted drives: what may be older than what was lost goes", "[target][evict]") {
  Cache f;
  const auto drives = f.store->drives();
  const std::string stale = f.name_for(*drives[0], *drives[1]);
  const std::string in_place = f.name_for(*drives[1], *drives[0]);
  const std::string of_another = f.name_for(*drives[2], *drives[1]);
  // A full drive passes its files on.
  for (const std::string& object : {stale, in_place, of_another}) f.put_on(drives[1], object);
  f.put_on(drives[0], stale);
  f.store->lose(*drives[0], "it is away");
  REQUIRE(f.run(f.store->forget_stale({drives[0]->path()}, f.bucket)));
  f.store->set_evicted(drives[0]->path(), {{kBucket, kUpto}});
  CHECK(f.records_of(stale) == 0);
  CHECK(f.records_of(in_place) == 1);
  CHECK(f.records_of(of_another) == 1);
}

}  // namespace evicted_drives_test
