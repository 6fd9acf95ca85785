#include "target/store/open_objects.h"

#include <catch2/catch.hpp>

#include "common/base/process.h"
#include "target/store/object_store.h"
#include "tests/unit/run_task.h"

namespace open_objects_test {

using namespace tarn;
using namespace tarn::target;

constexpr BucketId kBucket{1};

/// A store of one drive, written to as handlers do it.
struct OneDrive {
  test::TemporaryDirectory directory;
  IndexMemory memory{8U << 20U, 8U << 20U};
  test::TaskRunner run;
  std::optional<ObjectStore> store;
  std::uint64_t counter = 0;

  OneDrive() {
    Drive::Options options;
    options.path = directory.path().string();
    options.threads = 2;
    std::vector<std::unique_ptr<Drive>> drives;
    drives.push_back(Drive::open(std::move(options), memory).value());
    store.emplace(std::move(drives), std::map<std::string, std::string>());
  }
  [[nodiscard]] static ObjectName name(const std::string& object) {
    return {kBucket, "ais/@#/b/" + object, object};
  }
  Task<Status> put_task(std::string object, std::string content) {
    const ObjectName at = name(object);
    CO_TRY(auto file, co_await store->create(at, content.size()));
    CO_TRY_OK(co_await file->drive().write(*file, std::as_bytes(std::span(content)), 0).get());
    io::ObjectAttribute attribute;
    attribute.bucket_id = kBucket;
    attribute.bucket.name = "b";
    attribute.name = object;
    attribute.record.generation = {1, 1, ++counter};
    attribute.record.file = file->name();
    attribute.record.size = content.size();
    attribute.record.xxh64 = xxh64(content);
    CO_TRY(auto present, co_await store->find_all(at));
    co_return co_await store->publish(at, *file, attribute, {crc32c(content)}, std::move(present),
                                      cluster::Durability::full);
  }
  void put(const std::string& object, const std::string& content) {
    REQUIRE(run(put_task(object, content)));
  }
  std::shared_ptr<OpenObject> open(const std::string& object) {
    return run(store->open_object(name(object))).value();
  }
  std::optional<std::string> get(const std::string& object) {
    const auto opened = open(object);
    if (!opened) return std::nullopt;
    std::string block(kBlockBytes, '\0');
    block.resize(run(opened->read_block(0, std::as_writable_bytes(std::span(block)))).value());
    return block;
  }
};

TEST_CASE("open objects: a second reader finds the object open, and never one that was changed",
          "[target][open]") {
  OneDrive f;
  f.put("x", "first");
  CHECK(f.store->find_open(f.name("x")) == nullptr);
  const auto first = f.open("x");
  CHECK(f.store->find_open(f.name("x")) == first);
  CHECK(f.open("x") == first);

  f.put("x", "second");
  CHECK(f.store->find_open(f.name("x")) == nullptr);
  CHECK(f.get("x") == "second");

  io::ObjectAttribute changed{kBucket, {}, "x", f.open("x")->record()};
  changed.bucket.name = "b";
  changed.record.generation.counter = ++f.counter;
  changed.record.custom = {{"colour", "red"}};
  REQUIRE(f.run(f.store->patch(f.name("x"), *f.store->drives()[0], changed)));
  CHECK(f.open("x")->record().custom == changed.record.custom);
  CHECK(f.open("x")->field_lines().find("Ais-Custom-Md: colour=red\r\n") != std::string::npos);

  REQUIRE(f.open("x") == f.store->find_open(f.name("x")));
  io::ObjectRecord tombstone;
  tombstone.kind = io::ObjectRecord::Kind::tombstone;
  tombstone.generation = {1, 1, ++f.counter};
  auto present = f.run(f.store->find_all(f.name("x"))).value();
  REQUIRE(f.run(f.store->remove(f.name("x"), std::move(present), tombstone)));
  CHECK(f.open("x") == nullptr);

  f.put("x", "third");
  REQUIRE(f.open("x") != nullptr);
  f.store->drives()[0]->take_out("test");
  CHECK(f.store->find_open(f.name("x")) == nullptr);
  CHECK_FALSE(f.run(f.store->open_object(f.name("x"))));
}

TEST_CASE("open objects: what a look-up found is not kept when the name changed meanwhile",
          "[target][open]") {
  OneDrive f;
  f.put("x", "first");
  const auto object = f.open("x");
  OpenObjects open;

  const auto before = open.now(kBucket, "x");
  std::optional<OpenObjects::Change> change;
  change.emplace(open, kBucket, "x");
  open.keep(kBucket, "x", before, object);  // looked up before the change began
  CHECK(open.find(kBucket, "x") == nullptr);
  const auto within = open.now(kBucket, "x");
  open.keep(kBucket, "x", within, object);  // before its commit, or after it: unknown
  CHECK(open.find(kBucket, "x") == nullptr);
  change.reset();
  open.keep(kBucket, "x", within, object);  // maybe before its commit
  CHECK(open.find(kBucket, "x") == nullptr);
  open.keep(kBucket, "x", open.now(kBucket, "x"), object);
  CHECK(open.find(kBucket, "x") == object);
  CHECK(open.find(BucketId(2), "x") == nullptr);

  // The beginning of a change lets go, so that the space of the replaced file comes back.
  const long users = object.use_count();
  change.emplace(open, kBucket, "x");
  CHECK(open.find(kBucket, "x") == nullptr);
  CHECK(object.use_count() == users - 1);
}

TEST_CASE("open objects: nothing of a destroyed bucket is kept", "[target][open]") {
  OneDrive f;
  f.put("x", "first");
  const auto object = f.open("x");
  OpenObjects open;
  const auto before = open.now(kBucket, "y");
  open.keep(kBucket, "x", open.now(kBucket, "x"), object);
  open.keep(BucketId(2), "x", open.now(BucketId(2), "x"), object);
  open.forget_bucket(kBucket);
  CHECK(open.find(kBucket, "x") == nullptr);
  CHECK(open.find(BucketId(2), "x") == object);
  open.keep(kBucket, "y", before, object);
  CHECK(open.find(kBucket, "y") == nullptr);
}

TEST_CASE("open objects: the least recently used go before descriptors or memory run out",
          "[target][open]") {
  OneDrive f;
  f.put("x", "first");
  const auto object = f.open("x");
  const long users = object.use_count();
  OpenObjects open;
  const std::size_t most = std::min(OpenObjects::kCountMax, open_files_max() / 8);
  for (std::size_t i = 0; i < 3 * most; ++i) {
    const std::string name = "n-" + std::to_string(i);
    open.keep(kBucket, name, open.now(kBucket, name), object);
    REQUIRE(open.find(kBucket, name) == object);
    REQUIRE(open.find(kBucket, "n-0") == object);  // used all the time
  }
  const auto kept = static_cast<std::size_t>(object.use_count() - users);
  CHECK(kept <= most);
  CHECK(kept > most / 2);
}

TEST_CASE("open objects: metadata counts as memory", "[target][open]") {
  OneDrive f;
  f.put("x", "first");
  io::ObjectAttribute changed{kBucket, {}, "x", f.open("x")->record()};
  changed.bucket.name = "b";
  changed.record.generation.counter = ++f.counter;
  for (int i = 0; i < 30; ++i)
    changed.record.custom.emplace_back("key-" + std::to_string(i), std::string(100, 'v'));
  REQUIRE(f.run(f.store->patch(f.name("x"), *f.store->drives()[0], changed)));
  const auto object = f.open("x");
  const long users = object.use_count();
  OpenObjects open;
  for (std::size_t i = 0; i < 2 * OpenObjects::kCountMax; ++i) {
    const std::string name = "n-" + std::to_string(i);
    open.keep(kBucket, name, open.now(kBucket, name), object);
  }
  const auto kept = static_cast<std::size_t>(object.use_count() - users);
  CHECK(kept > 0);
  CHECK(kept * 2 * object->field_lines().size() <= 16U << 20U);
}

}  // namespace open_objects_test
