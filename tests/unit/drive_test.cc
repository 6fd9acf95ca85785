#include <filesystem>
#include <fstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "common/base/fail_points.h"
#include "target/drive/drive_identity.h"
#include "tests/unit/drive_fixture.h"

namespace drive_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;

TEST_CASE("drive: what was put is read, replaced and deleted", "[target][drive]") {
  Fixture f;
  const std::string big(3 * kBlockBytes + 17, 'x');
  REQUIRE(f.put("a", "one"));
  REQUIRE(f.put("big", big));
  CHECK(**f.get("a") == "one");
  CHECK(**f.get("big") == big);
  REQUIRE(f.put("a", "two"));
  CHECK(**f.get("a") == "two");
  REQUIRE(f.remove("a"));
  CHECK_FALSE(f.get("a")->has_value());
  f.quiesce();
  CHECK(f.data_files().size() == 1);
}

TEST_CASE("drive: an object of no bytes is an object", "[target][drive]") {
  Fixture f;
  REQUIRE(f.put("empty", ""));
  CHECK(**f.get("empty") == "");
  f.lose_index();
  f.open();
  CHECK(**f.get("empty") == "");
}

TEST_CASE("drive: a lost index is made again from the files", "[target][drive][recovery]") {
  Fixture f;
  for (int i = 0; i < 50; ++i) REQUIRE(f.put("n" + std::to_string(i), "v" + std::to_string(i)));
  REQUIRE(f.put("n7", "newer"));
  REQUIRE(f.remove("n8"));
  f.quiesce();
  f.lose_index();
  f.open();
  CHECK(f.drive->recovery().adopted == 49);
  CHECK(**f.get("n7") == "newer");
  CHECK_FALSE(f.get("n8")->has_value());
  CHECK(**f.get("n49") == "v49");
}

TEST_CASE("drive: an index whose CURRENT names a file that is not there is made again",
          "[target][drive][recovery]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  f.drive.reset();
  f.files = nullptr;
  std::ofstream(f.directory.path() + "/.tarn/index/CURRENT", std::ios::trunc)
      << "MANIFEST-400005\n";
  f.open();
  CHECK(f.drive->recovery().adopted == 1);
  CHECK(**f.get("a") == "one");
}

TEST_CASE("drive: an index with a bad block is made again, whoever reads the block first",
          "[target][drive][recovery]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  f.open();  // which moves the log into a table
  f.drive.reset();
  f.files = nullptr;
  int broken = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(f.directory.path() + "/.tarn/index")) {
    if (entry.path().extension() != ".sst") continue;
    std::fstream table(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    table.seekp(10) << "~~~~";  // in the first block of data
    ++broken;
  }
  REQUIRE(broken > 0);
  f.open();
  CHECK(f.drive->recovery().adopted == 1);
  CHECK(**f.get("a") == "one");
}

TEST_CASE("drive: names of other drives are remembered until a start finds none",
          "[target][drive][recovery]") {
  Fixture f;
  for (int i = 0; i < 20; ++i) REQUIRE(f.put("n" + std::to_string(i), "v"));
  CHECK_FALSE(f.drive->may_hold_misplaced());
  f.lose_index();
  f.open({}, {f.directory.path(), "/another/drive"});
  CHECK(f.drive->recovery().adopted == 20);
  const std::uint64_t misplaced = f.drive->recovery().misplaced;
  CHECK(misplaced > 0);
  CHECK(misplaced < 20);
  CHECK(f.drive->may_hold_misplaced());
  f.open();  // written down, for a start that cannot know
  CHECK(f.drive->recovery().unplaced == 20);
  CHECK(f.drive->may_hold_misplaced());
  f.open({}, {f.directory.path(), "/another/drive"});  // the index tells as the files did
  CHECK(f.drive->recovery().misplaced == misplaced);
  CHECK(f.drive->may_hold_misplaced());
  f.open({}, {f.directory.path()});
  CHECK(f.drive->recovery().misplaced == 0);
  CHECK_FALSE(f.drive->may_hold_misplaced());
  f.open();
  CHECK_FALSE(f.drive->may_hold_misplaced());
}

TEST_CASE("drive: a file without attribute is removed at the next start",
          "[target][drive][recovery]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  std::ofstream(f.data_files().front().parent_path() / "00000000000000ff") << "half a body";
  f.open();
  CHECK(f.drive->recovery().work_files == 1);
  CHECK(f.data_files().size() == 1);
  CHECK(**f.get("a") == "one");
}

/// The file of the only object, kept under a second name: the unlink of a replaced or deleted file
/// then does not destroy it.
class KeptFile {
 public:
  explicit KeptFile(Fixture& f)
      : file_(f.data_files().front()), kept_(f.directory.path() + "/kept") {
    std::filesystem::create_hard_link(file_, kept_);
  }
  void bring_back() const { std::filesystem::create_hard_link(kept_, file_); }

 private:
  std::filesystem::path file_;
  std::filesystem::path kept_;
};

TEST_CASE("drive: of two files of one name the higher generation wins, in either order",
          "[target][drive][recovery]") {
  Fixture f;
  REQUIRE(f.put("a", "old"));
  const KeptFile old(f);
  REQUIRE(f.put("a", "new"));
  f.quiesce();
  REQUIRE(f.data_files().size() == 1);
  old.bring_back();
  SECTION("with the index") {}
  SECTION("without the index") { f.lose_index(); }
  f.open();
  CHECK(**f.get("a") == "new");
  CHECK(f.data_files().size() == 1);
}

TEST_CASE("drive: a deleted object does not come back when its file does",
          "[target][drive][recovery]") {
  Fixture f;
  REQUIRE(f.put("a", "gone"));
  const KeptFile file(f);
  REQUIRE(f.remove("a"));
  file.bring_back();
  f.open();
  CHECK_FALSE(f.get("a")->has_value());
  CHECK(f.data_files().empty());
}

TEST_CASE("drive: a record without its file gives way to an older file that is there",
          "[target][drive][recovery]") {
  Fixture f;
  REQUIRE(f.put("a", "old"));
  const KeptFile old(f);
  REQUIRE(f.put("a", "new"));
  f.quiesce();
  std::filesystem::remove(f.data_files().front());
  old.bring_back();
  f.open();
  CHECK(f.drive->recovery().lost_records == 1);
  CHECK(**f.get("a") == "old");
}

TEST_CASE("drive: files of a destroyed bucket are not adopted", "[target][drive][recovery]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  f.lose_index();
  f.open({BucketId(1)});
  CHECK_FALSE(f.get("a")->has_value());
  CHECK(f.data_files().empty());
}

TEST_CASE("drive: what was evicted while it was away is gone, and nothing else",
          "[target][drive][recovery]") {
  Fixture f;
  REQUIRE(f.put("old", "one"));
  REQUIRE(f.put("rewritten", "one"));
  REQUIRE(f.put("deleted", "one"));
  REQUIRE(f.remove("deleted"));
  const Generation upto{1, 1, f.counter};
  REQUIRE(f.put("rewritten", "two"));
  f.quiesce();
  const auto opened_with = [&f](std::optional<Generation> evicted) {
    f.evicted.clear();
    if (evicted) f.evicted = {{BucketId(1), *evicted}, {BucketId(2), {9, 9, 9}}};
    f.open();
  };
  SECTION("with the index") {}
  SECTION("without the index") { f.lose_index(); }
  opened_with(upto);
  CHECK_FALSE(f.get("old")->has_value());
  CHECK(**f.get("rewritten") == "two");
  CHECK(f.data_files().size() == 1);
  opened_with({});
  CHECK_FALSE(f.get("old")->has_value());
  CHECK(f.drive->recovery().records == 1);
  CHECK(f.drive->recovery().evicted == 0);
}

TEST_CASE("drive: a tombstone stays when its drive was evicted", "[target][drive][recovery]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  REQUIRE(f.remove("a"));
  f.evicted = {{BucketId(1), {1, 1, f.counter}}};
  f.open();
  const auto record = wait_for(f.drive->find(BucketId(1), "a")).value();
  REQUIRE(record);
  CHECK(record->kind == io::ObjectRecord::Kind::tombstone);
}

TEST_CASE("drive: a flipped byte is never served", "[target][drive][checksum]") {
  Fixture f;
  const std::string content(kBlockBytes + 100, 'y');
  REQUIRE(f.put("a", content));
  bool adopted = false;
  SECTION("with block checksums") {}
  SECTION("adopted, so without block checksums") { adopted = true; }
  const auto file = f.data_files().front();
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(kBlockBytes + 50);
    bytes.put('z');
  }
  if (adopted) {
    f.lose_index();
    f.open();
  }
  const auto got = f.get("a");
  REQUIRE_FALSE(got.has_value());
  CHECK(got.error().code == Errc::corrupt);
}

TEST_CASE("drive: after a failed sync the drive is out and nothing is acknowledged",
          "[target][drive][fault]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  f.files->fail_sync = true;
  CHECK_FALSE(f.put("a", "two"));
  f.files->fail_sync = false;
  CHECK_FALSE(f.drive->usable());
  CHECK_FALSE(f.put("b", "x"));
  f.open();
  CHECK(**f.get("a") == "one");
}

TEST_CASE("drive: a full drive refuses a new file and keeps the old one",
          "[target][drive][fault]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  f.files->pretend_free = 4096;
  const Status full = f.put("a", "two");
  REQUIRE_FALSE(full);
  CHECK(full.error().code == Errc::no_space);
  CHECK(**f.get("a") == "one");
  REQUIRE(f.remove("a"));
  f.files->pretend_free = 0;
  REQUIRE(f.put("a", "three"));
  CHECK(**f.get("a") == "three");
}

TEST_CASE("drive: an unfinished work file leaves nothing", "[target][drive]") {
  Fixture f;
  {
    auto file = wait_for(f.drive->create(1000, true));
    REQUIRE(file.has_value());
    CHECK(f.data_files().size() == 1);
  }
  f.quiesce();
  CHECK(f.data_files().empty());
}

TEST_CASE("drive: one that goes takes no new files, whoever asks it", "[target][drive]") {
  Fixture f;
  {
    const Drive::Closing closing(*f.drive);
    const auto file = wait_for(f.drive->create(10, true));
    REQUIRE_FALSE(file);
    CHECK(file.error().code == Errc::unavailable);
  }
  CHECK(wait_for(f.drive->create(10, true)));
  f.drive->set_draining(true);
  CHECK_FALSE(wait_for(f.drive->create(10, true)));
  f.drive->set_draining(false);
  f.drive->set_disabled(true);
  CHECK_FALSE(wait_for(f.drive->create(10, true)));
}

TEST_CASE("drive: nosync is durable soon, and complete in an index that knows it",
          "[target][drive][nosync]") {
  Fixture f;
  f.durability = cluster::Durability::nosync;
  const std::string big(3 * kBlockBytes + 17, 'y');
  REQUIRE(f.put("a", "one"));
  REQUIRE(f.put("a", big));
  CHECK(**f.get("a") == big);
  f.quiesce();
  CHECK(f.data_files().size() == 1);  // the replaced one is gone
  f.lose_index();
  f.open();
  CHECK(f.drive->recovery().adopted == 1);
  CHECK(**f.get("a") == big);
}

TEST_CASE("drive: what nosync acknowledged and a power cut tore gives way to the version before",
          "[target][drive][nosync][recovery]") {
  Fixture f;
  REQUIRE(f.put("a", "before"));
  REQUIRE(f.put("whole", "1"));
  f.durability = cluster::Durability::nosync;
  fail_point::set("nosync.before_sync=error");  // as if the power had gone first
  REQUIRE(f.put("a", std::string(2 * kBlockBytes, 'z')));
  REQUIRE(f.put("new", std::string(kBlockBytes, 'n')));
  REQUIRE(f.put("whole", "2"));
  f.quiesce();
  fail_point::set("");
  CHECK(f.data_files().size() == 5);  // the replaced ones wait
  int torn = 0;
  for (const auto& file : f.data_files())
    if (std::filesystem::file_size(file) >= kBlockBytes) {
      std::filesystem::resize_file(file, kBlockBytes / 2);
      ++torn;
    }
  REQUIRE(torn == 2);
  f.open();
  CHECK(f.drive->recovery().torn_files == 2);
  CHECK(**f.get("a") == "before");
  CHECK_FALSE(f.get("new")->has_value());
  CHECK(**f.get("whole") == "2");
  // The one that was whole has its attribute now.
  f.lose_index();
  f.open();
  CHECK(**f.get("whole") == "2");
  CHECK(**f.get("a") == "before");
}

TEST_CASE("drives: foreign, doubled and non-empty ones are refused", "[target][identity]") {
  const DriveIdentity ours{1, "cluster", "d1", "t1", "/d1", {{"d1", {"/d1", 0}}}};
  auto other = ours;
  other.cluster = "another";
  CHECK_FALSE(plan_drives({{"/d1", other, true}}, "cluster", {}, "new"));
  other = ours;
  other.drive = "d2";
  other.node = "t2";
  CHECK_FALSE(plan_drives({{"/d1", ours, true}, {"/d2", other, true}}, "cluster", {}, "new"));
  CHECK_FALSE(plan_drives({{"/d1", ours, true}, {"/d2", ours, true}}, "cluster", {}, "new"));
  CHECK_FALSE(plan_drives({{"/d1", std::nullopt, true}}, "cluster", {}, "new"));
}

TEST_CASE("drives: one whose first start was cut off is empty still", "[target][identity]") {
  const TemporaryDirectory directory;
  const auto files = io::FileSystem::open(directory.path()).value();
  const auto in_the_way = std::filesystem::path(directory.path()) / kIdentityFile;
  std::filesystem::create_directories(in_the_way);
  REQUIRE_FALSE(write_identity(*files, {1, "c", "d1", "t1", directory.path(), {}}));
  std::filesystem::remove(in_the_way);
  CHECK_FALSE(inspect_drive(*files)->has_files);
}

TEST_CASE("drives: an empty drive in the place of a known one is not taken for it",
          "[target][identity]") {
  const DriveIdentity first{1, "c", "d1", "t1", "/d1", {{"d1", {"/d1", 0}}, {"d2", {"/d2", 0}}}};
  const auto plan = plan_drives({{"/d1", first, true}, {"/d2", std::nullopt, false}}, "c", {}, "n");
  REQUIRE(plan.has_value());
  CHECK(plan->node == "t1");
  CHECK(plan->use.size() == 1);
  CHECK(plan->missing.count("/d2") == 1);
  const auto given_up =
      plan_drives({{"/d1", first, true}, {"/d2", std::nullopt, false}}, "c", {"/d2"}, "n");
  REQUIRE(given_up.has_value());
  CHECK(given_up->use.size() == 2);
  CHECK(given_up->missing.empty());
  CHECK(given_up->use.front().may_hold_misplaced);
}

TEST_CASE("drives: a known one that cannot be opened is missing, any other an error",
          "[target][identity]") {
  const DriveIdentity first{1, "c", "d1", "t1", "/d1", {{"d1", {"/d1", 0}}, {"d2", {"/d2", 0}}}};
  const auto gone = [](const std::string& path) {
    return FoundDrive{path, std::nullopt, false, 0, "open drive " + path + ": No such file"};
  };
  const auto plan = plan_drives({{"/d1", first, true}, gone("/d2")}, "c", {}, "n");
  REQUIRE(plan.has_value());
  CHECK(plan->use.size() == 1);
  CHECK_THAT(plan->missing.at("/d2"), Catch::Contains("No such file"));
  CHECK_THAT(plan->missing.at("/d2"), Catch::Contains("--replace-drive /d2"));
  for (const auto& found : {std::vector{FoundDrive{"/d1", first, true}, gone("/d3")},
                            std::vector{gone("/d1"), gone("/d2")}}) {
    const auto refused = plan_drives(found, "c", {}, "n");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::not_found);
  }
  CHECK_FALSE(plan_drives({{"/d1", first, true}, gone("/d2")}, "c", {"/d2"}, "n"));
}

TEST_CASE("drives: names are shared out by size, among equals as ever", "[target][identity]") {
  const auto weights = [](const std::vector<std::uint64_t>& sizes) {
    std::vector<DrivePlace> places;
    places.reserve(sizes.size());
    for (const auto size : sizes) places.push_back({"/d" + std::to_string(places.size()), size});
    std::vector<double> out;
    for (const auto& candidate : drive_candidates(places)) out.push_back(candidate.weight);
    return out;
  };
  CHECK(weights({4000, 4100, 4400}) == std::vector<double>{1, 1, 1});
  CHECK(weights({8000, 4000, 6000, 20'000}) == std::vector<double>{2, 1, 1.5, 5});
  CHECK(weights({8000, 0, 4000}) == std::vector<double>{1, 1, 1});
  CHECK(weights({}).empty());
}

TEST_CASE(
    "drives: the size that a drive is placed by changes when that is worth it, and is known while "
    "it is away",
    "[target][identity]") {
  const std::map<std::string, DrivePlace> both{{"d1", {"/d1", 1000}}, {"d2", {"/d2", 4000}}};
  const DriveIdentity first{1, "c", "d1", "t1", "/d1", both};
  const auto planned = [&](std::uint64_t bytes) {
    auto plan = plan_drives({{"/d1", first, true, bytes}}, "c", {}, "n");
    REQUIRE(plan.has_value());
    CHECK(plan->use.front().identity.siblings.at("d2") == DrivePlace{"/d2", 4000});
    return plan->use.front();
  };
  CHECK(planned(1100).identity.siblings.at("d1").bytes == 1000);
  CHECK_FALSE(planned(1100).may_hold_misplaced);
  CHECK(planned(2000).identity.siblings.at("d1").bytes == 2000);
  CHECK(planned(2000).may_hold_misplaced);

  CHECK(nlohmann::json(first).get<DriveIdentity>() == first);
  auto older = nlohmann::json(first);
  older.erase("sizes");
  CHECK(older.get<DriveIdentity>().siblings.at("d2") == DrivePlace{"/d2", 0});
}

// --- metadata that changes after publication
// -------------------------------------------------------

/// Gives the record of `name` other metadata and a higher generation.
Status patch(Fixture& f, const std::string& name, const std::string& value) {
  auto record = wait_for(f.drive->find(BucketId(1), name));
  REQUIRE((record && *record));
  io::ObjectAttribute attribute;
  attribute.bucket_id = BucketId(1);
  attribute.bucket.name = "b";
  attribute.name = name;
  attribute.record = **record;
  attribute.record.generation = {1, 1, ++f.counter};
  attribute.record.custom = {{"color", value}};
  return wait_for(f.drive->patch(std::move(attribute)));
}

std::string color_of(Fixture& f, const std::string& name) {
  const auto record = wait_for(f.drive->find(BucketId(1), name));
  REQUIRE((record && *record));
  return (*record)->custom.empty() ? "" : (*record)->custom.front().second;
}

TEST_CASE("drive: changed metadata survives a restart and a lost index",
          "[target][drive][recovery]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  REQUIRE(patch(f, "a", "red"));
  REQUIRE(patch(f, "a", "blue"));
  CHECK(color_of(f, "a") == "blue");
  f.open();
  CHECK(color_of(f, "a") == "blue");
  CHECK(f.drive->recovery().newer_metadata == 0);
  f.lose_index();
  f.open();
  CHECK(color_of(f, "a") == "blue");
  CHECK(**f.get("a") == "one");
  REQUIRE(f.put("a", "two"));
  CHECK(color_of(f, "a").empty());
}

TEST_CASE("drive: an index that lost its tail learns changed metadata from the files",
          "[target][drive][recovery]") {
  namespace fs = std::filesystem;
  Fixture f;
  REQUIRE(f.put("a", "one"));
  REQUIRE(f.put("b", "other"));
  REQUIRE(f.put("c", "third"));
  f.drive.reset();
  const std::string index = f.directory.path() + "/.tarn/index";
  const std::string aside = f.directory.path() + "/.tarn/index.aside";
  fs::copy(index, aside, fs::copy_options::recursive);
  f.open();
  REQUIRE(patch(f, "a", "red"));
  REQUIRE(patch(f, "b", "green"));
  REQUIRE(f.remove("b"));
  f.drive.reset();
  fs::remove_all(index);
  fs::rename(aside, index);
  f.open();
  CHECK(f.drive->recovery().newer_metadata == 1);
  CHECK(color_of(f, "a") == "red");
  CHECK(**f.get("a") == "one");
  CHECK_FALSE(f.get("b")->has_value());
  CHECK(color_of(f, "c").empty());
}

TEST_CASE("drive: metadata that no attribute can hold is refused, and nothing changes",
          "[target][drive]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  REQUIRE(patch(f, "a", "red"));
  const auto refused = patch(f, "a", std::string(io::kAttributeBytesMax, 'x'));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::invalid_argument);
  CHECK(color_of(f, "a") == "red");
  f.lose_index();
  f.open();
  CHECK(color_of(f, "a") == "red");
}

TEST_CASE("drive: a sync that fails under changed metadata takes the drive out",
          "[target][drive]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  REQUIRE(patch(f, "a", "red"));
  f.files->fail_sync = true;
  CHECK_FALSE(patch(f, "a", "blue"));
  CHECK_FALSE(f.drive->usable());
}

TEST_CASE("drive: an unfinished file is read back and cut", "[target][drive]") {
  Fixture f;
  auto file = wait_for(f.drive->create(std::nullopt, true));
  REQUIRE(file);
  const std::string content = "hello world";
  const auto write = [&]() -> Task<Status> {
    co_return co_await f.drive->write(**file, std::as_bytes(std::span(content)), 0).get();
  };
  REQUIRE(wait_for(write()));
  std::string back(5, '\0');
  REQUIRE(wait_for(f.drive->read_back(**file, std::as_writable_bytes(std::span(back)), 6)));
  CHECK(back == "world");
  REQUIRE(wait_for(f.drive->truncate(**file, 6)));
  CHECK_FALSE(wait_for(f.drive->read_back(**file, std::as_writable_bytes(std::span(back)), 6)));
}

}  // namespace drive_test
