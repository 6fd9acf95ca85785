// Slices on one drive: sealed, read, raised, dropped, and what a start makes of what a crash left.

#include <fstream>

#include <nlohmann/json.hpp>

#include "common/base/fail_points.h"
#include "target/drive/drive_identity.h"
#include "tests/unit/slice_fixture.h"

namespace drive_slices_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;
using Sealed = Drive::Sealed;

std::optional<std::string> read_slice(Fixture& f, const SliceKey& key) {
  auto slice = wait_for(f.drive->open_slice(key)).value();
  if (!slice) return std::nullopt;
  return wait_for(read_slice_task(std::move(slice))).value();
}

/// Under a second name, so that an unlink does not destroy them.
class KeptFiles {
 public:
  explicit KeptFiles(Fixture& f, std::string tag = "kept")
      : f_(f), tag_(std::move(tag)), files_(f.data_files()) {
    for (std::size_t i = 0; i < files_.size(); ++i)
      std::filesystem::create_hard_link(files_[i], kept(i));
  }
  void bring_back() const {
    for (std::size_t i = 0; i < files_.size(); ++i)
      if (!std::filesystem::exists(files_[i]))
        std::filesystem::create_hard_link(kept(i), files_[i]);
  }

 private:
  [[nodiscard]] std::string kept(std::size_t i) const {
    return f_.directory.path() + "/" + tag_ + std::to_string(i);
  }
  Fixture& f_;
  std::string tag_;
  std::vector<std::filesystem::path> files_;
};

TEST_CASE("slice: what is sealed is read, block by block and with its label",
          "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  for (const std::uint8_t index : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{2}})
    REQUIRE(seal(*f.drive, object, index, 5) == Sealed::done);
  CHECK(f.data_files().size() == 3);
  CHECK(wait_for(f.drive->slices_of(kSliceBucket, "a", object.set)).value().size() == 3);
  CHECK(wait_for(f.drive->has_slices()).value());
  for (int start = 0; start < 2; ++start) {
    for (const std::uint8_t index : {std::uint8_t{0}, std::uint8_t{2}})
      CHECK(read_slice(f, object.key(index)) == object.slices[index]);
    CHECK(wait_for(f.drive->slice_label(object.key(2))).value() == object.label(2));
    CHECK_FALSE(f.get("a")->has_value());  // no object of the name is here
    if (start == 0) f.quiesce();
  }
  CHECK_FALSE(read_slice(f, {kSliceBucket, "a", 1, 0}));
  CHECK_FALSE(read_slice(f, object.key(io::kFullCopy)));
  f.open();
  CHECK(f.drive->recovery().slices == 3);
  CHECK(f.drive->recovery().records == 0);
  CHECK(read_slice(f, object.key(1)) == object.slices[1]);
}

TEST_CASE("slice: a full copy is read as an object is, and adopted as one",
          "[target][drive][slice]") {
  Fixture f;
  const CutObject object(2 * kBlockBytes + 99);
  const SliceKey key = object.key(io::kFullCopy);
  REQUIRE(seal(*f.drive, object, io::kFullCopy, 5) == Sealed::done);
  {
    const auto full_copy = wait_for(f.drive->open_slice(key)).value();
    REQUIRE(full_copy);
    CHECK(full_copy->record().kind == io::ObjectRecord::Kind::object);
    CHECK(full_copy->record().etag() == object.order(io::kFullCopy, 5).attribute.record.etag());
    CHECK(full_copy->has_checksums());
  }
  CHECK(read_slice(f, key) == object.content);
  CHECK_FALSE(wait_for(f.drive->open_slice(object.key(0))).value());
  f.lose_index();
  f.open();
  CHECK(f.drive->recovery().slices == 1);
  CHECK_FALSE(wait_for(f.drive->open_slice(key)).value()->has_checksums());
  CHECK(read_slice(f, key) == object.content);
  CHECK(wait_for(f.drive->open_slice(key)).value()->has_checksums());
}

TEST_CASE("slice: the higher generation takes the place of the lower", "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  CHECK(seal(*f.drive, object, 0, 5) == Sealed::had_it);
  CHECK(seal(*f.drive, object, 0, 4) == Sealed::had_newer);
  CHECK(seal(*f.drive, object, 0, 4, true) == Sealed::had_newer);
  f.quiesce();
  CHECK(f.data_files().size() == 1);
  const auto before = f.data_files().front();
  REQUIRE(seal(*f.drive, object, 0, 5, true) == Sealed::done);
  f.quiesce();
  REQUIRE(f.data_files().size() == 1);
  CHECK(f.data_files().front() != before);
  REQUIRE(seal(*f.drive, object, 0, 6) == Sealed::done);
  CHECK(sealed_at(*f.drive, object.key(0)) == 6);
  f.quiesce();
  CHECK(f.data_files().size() == 1);
  CHECK(read_slice(f, object.key(0)) == object.slices[0]);
}

TEST_CASE("slice: an object and slices of its name do not disturb each other",
          "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  REQUIRE(f.put("a", "one"));
  REQUIRE(seal(*f.drive, object, 0, 1) == Sealed::done);  // older than the object
  REQUIRE(f.put("a", "two"));
  f.quiesce();
  CHECK(f.data_files().size() == 2);
  SECTION("with the index") {}
  SECTION("without the index") { f.lose_index(); }
  f.open();
  CHECK(**f.get("a") == "two");
  CHECK(read_slice(f, object.key(0)) == object.slices[0]);
  REQUIRE(f.remove("a"));
  CHECK(read_slice(f, object.key(0)) == object.slices[0]);
  f.open();
  CHECK(read_slice(f, object.key(0)) == object.slices[0]);
}

TEST_CASE("slice: what is not as long as it says, or another's, is not sealed",
          "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  const auto refused = [&](const std::string& body, const Drive::SealOrder& order) {
    const auto sealed = wait_for(seal_task(*f.drive, body, order));
    return !sealed && sealed.error().code == Errc::invalid_argument;
  };
  CHECK(refused(object.slices[0].substr(1), object.order(0, 5)));
  CHECK(refused(object.slices[0] + "x", object.order(0, 5)));
  auto order = object.order(0, 5);
  order.label = object.label(1);
  CHECK(refused(object.slices[0], order));
  order = object.order(0, 5);
  ++order.attribute.record.slice->file_bytes;
  CHECK(refused(object.slices[0], order));
  order = object.order(0, 5);
  order.attribute.name = "other";
  CHECK(refused(object.slices[0], order));
  order = object.order(0, 5);
  order.attribute.record.slice.reset();
  CHECK(refused(object.slices[0], order));
  order = object.order(io::kFullCopy, 5);
  order.checksums.clear();
  CHECK(refused(object.content, order));
  f.quiesce();
  CHECK(f.data_files().empty());
  CHECK_FALSE(wait_for(f.drive->has_slices()).value());
}

TEST_CASE("slice: a raised generation survives a restart and a lost index",
          "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  CHECK_FALSE(wait_for(f.drive->raise_slice(object.key(0), gen(9))).value());
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  REQUIRE(wait_for(f.drive->raise_slice(object.key(0), gen(9))).value());
  CHECK(sealed_at(*f.drive, object.key(0)) == 9);
  REQUIRE(wait_for(f.drive->raise_slice(object.key(0), gen(7))).value());
  CHECK(sealed_at(*f.drive, object.key(0)) == 9);
  f.open();
  CHECK(sealed_at(*f.drive, object.key(0)) == 9);
  f.lose_index();
  f.open();
  CHECK(sealed_at(*f.drive, object.key(0)) == 9);
  CHECK(read_slice(f, object.key(0)) == object.slices[0]);
}

TEST_CASE("slice: an index that lost its tail learns a raised generation from the file",
          "[target][drive][slice]") {
  namespace fs = std::filesystem;
  Fixture f;
  const CutObject object;
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  f.drive.reset();
  const std::string index = f.directory.path() + "/.tarn/index";
  fs::copy(index, index + ".aside", fs::copy_options::recursive);
  f.open();
  REQUIRE(wait_for(f.drive->raise_slice(object.key(0), gen(9))).value());
  REQUIRE(seal(*f.drive, object, 1, 6) == Sealed::done);
  f.drive.reset();
  fs::remove_all(index);
  fs::rename(index + ".aside", index);
  f.open();
  CHECK(f.drive->recovery().newer_metadata == 1);
  CHECK(f.drive->recovery().adopted == 1);
  CHECK(sealed_at(*f.drive, object.key(0)) == 9);
  CHECK(sealed_at(*f.drive, object.key(1)) == 6);
}

TEST_CASE("slice: it is dropped up to its generation, for good", "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  const SliceKey key = object.key(0);
  CHECK_FALSE(wait_for(f.drive->drop_slice(key, gen(9))).value());
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  CHECK_FALSE(wait_for(f.drive->drop_slice(key, gen(4))).value());
  REQUIRE(wait_for(f.drive->raise_slice(key, gen(8))).value());
  CHECK_FALSE(wait_for(f.drive->drop_slice(key, gen(7))).value());
  {
    const auto reader = wait_for(f.drive->open_slice(key)).value();
    CHECK(wait_for(f.drive->drop_slice(key, gen(8))).value());
    CHECK(f.data_files().empty());
    // A reader that had it open reads on.
    CHECK(wait_for(read_slice_task(reader)).value() == object.slices[0]);
  }
  CHECK_FALSE(wait_for(f.drive->has_slices()).value());
  f.lose_index();
  f.open();
  CHECK(sealed_at(*f.drive, key) == 0);
}

TEST_CASE("slice: a lost index is made again from the files", "[target][drive][slice]") {
  Fixture f;
  const CutObject one;
  const CutObject other(700, 99);
  for (const std::uint8_t index : {std::uint8_t{0}, std::uint8_t{1}, io::kFullCopy}) {
    REQUIRE(seal(*f.drive, one, index, 5 + index) == Sealed::done);
    REQUIRE(seal(*f.drive, other, index, 6) == Sealed::done);
  }
  REQUIRE(wait_for(f.drive->drop_slice(other.key(1), gen(6))).value());
  f.quiesce();
  const auto all = [&] {
    std::vector<std::pair<SliceKey, io::ObjectRecord>> out;
    REQUIRE(wait_for(f.drive->walk_slices(kSliceBucket, std::nullopt,
                                          [&](const SliceKey& key, const io::ObjectRecord& record) {
                                            out.emplace_back(key, record);
                                            return true;
                                          })));
    return out;
  };
  const auto before = all();
  CHECK(before.size() == 5);
  const auto bytes = f.drive->recovery().slice_bytes;
  CHECK(bytes == 0);
  f.lose_index();
  f.open();
  CHECK(f.drive->recovery().adopted == 5);
  CHECK(f.drive->recovery().slices == 5);
  const auto slice_bytes = f.drive->recovery().slice_bytes;
  CHECK(all() == before);
  f.open();
  CHECK(f.drive->recovery().slice_bytes == slice_bytes);
  CHECK(f.drive->recovery().adopted == 0);
  CHECK(all() == before);
}

TEST_CASE("slice: of two of one the higher generation stays, in either order",
          "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  const KeptFiles old(f);
  REQUIRE(seal(*f.drive, object, 0, 6) == Sealed::done);
  f.quiesce();
  REQUIRE(f.data_files().size() == 1);
  old.bring_back();
  SECTION("with the index") {}
  SECTION("without the index") { f.lose_index(); }
  f.open();
  CHECK(sealed_at(*f.drive, object.key(0)) == 6);
  CHECK(f.drive->recovery().slices == 1);
  CHECK(f.data_files().size() == 1);
  CHECK(read_slice(f, object.key(0)) == object.slices[0]);
}

TEST_CASE("slice: an entry without its file goes, an older file that is there counts",
          "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  const KeptFiles old(f);
  REQUIRE(seal(*f.drive, object, 0, 6) == Sealed::done);
  f.quiesce();
  std::filesystem::remove(f.data_files().front());
  bool back = false;
  SECTION("nothing else is there") {}
  SECTION("the one before is") { back = true; }
  if (back) old.bring_back();
  f.open();
  CHECK(f.drive->recovery().lost_records == 1);
  CHECK(f.drive->recovery().slices == (back ? 1 : 0));
  CHECK(sealed_at(*f.drive, object.key(0)) == (back ? 5 : 0));
}

TEST_CASE("slice: those of a destroyed bucket go", "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  REQUIRE(seal(*f.drive, object, io::kFullCopy, 5) == Sealed::done);
  SECTION("while the drive is in use") {
    f.drive->forget_bucket(kSliceBucket);
    f.quiesce();
    CHECK_FALSE(wait_for(f.drive->has_slices()).value());
    CHECK(f.data_files().empty());
    // One that was being written meanwhile.
    REQUIRE(seal(*f.drive, object, 1, 5) == Sealed::done);
    f.quiesce();
  }
  SECTION("at a start") { f.open({kSliceBucket}); }
  SECTION("at a start without the index") {
    f.lose_index();
    f.open({kSliceBucket});
  }
  CHECK_FALSE(wait_for(f.drive->has_slices()).value());
  CHECK(f.data_files().empty());
}

TEST_CASE("slice: a file that was cut, or copied by hand, is not taken for one",
          "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  const auto file = f.data_files().front();
  std::filesystem::resize_file(file, 100);
  CHECK(wait_for(f.drive->open_slice(object.key(0))).error().code == Errc::corrupt);
  f.lose_index();
  f.open();
  CHECK(sealed_at(*f.drive, object.key(0)) == 0);
  CHECK(f.data_files().empty());
}

TEST_CASE("slice: a changed byte is never read", "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  const auto flip = [&](std::size_t at) {
    std::fstream bytes(f.data_files().front(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(static_cast<std::streamoff>(at));
    const char was = static_cast<char>(bytes.get());
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.put(static_cast<char>(was ^ 1));
  };
  const auto slice = wait_for(f.drive->open_slice(object.key(0))).value();
  flip(600);
  CHECK(wait_for(read_slice_task(slice)).error().code == Errc::corrupt);
  CHECK(f.drive->counters().corrupt_blocks == 1);
  CHECK(wait_for(f.drive->slice_label(object.key(0))));
  flip(object.slices[0].size() + 5);
  CHECK(wait_for(f.drive->slice_label(object.key(0))).error().code == Errc::corrupt);
}

TEST_CASE("slice: a full drive takes no new one and can drop one", "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  f.files->pretend_free = 4096;
  CHECK(seal(*f.drive, object, 1, 5).error().code == Errc::no_space);
  CHECK(read_slice(f, object.key(0)) == object.slices[0]);
  CHECK(wait_for(f.drive->drop_slice(object.key(0), gen(5))).value());
}

TEST_CASE("slice: after a failed sync nothing is sealed and the drive is out",
          "[target][drive][slice]") {
  Fixture f;
  const CutObject object;
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  f.files->fail_sync = true;
  CHECK_FALSE(seal(*f.drive, object, 0, 6));
  CHECK_FALSE(seal(*f.drive, object, 1, 6));
  CHECK_FALSE(f.drive->usable());
  f.open();
  CHECK(sealed_at(*f.drive, object.key(0)) == 5);
  CHECK(sealed_at(*f.drive, object.key(1)) == 0);
  CHECK(f.data_files().size() == 1);
}

TEST_CASE("slice: a clean-up leaves those that are sealed or being written, and takes leftovers",
          "[target][drive][slice][clean]") {
  Fixture f;
  const CutObject object;
  const auto clean = [&](const CleanOrder& order) {
    const auto known = wait_for(f.drive->known_files(order.dead)).value();
    std::uint64_t files = 0;
    for (const std::uint32_t directory : known.directories)
      files += wait_for(f.drive->clean(directory, known, order)).value().files;
    return files;
  };
  REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
  const KeptFiles old(f);
  REQUIRE(seal(*f.drive, object, 0, 6) == Sealed::done);
  REQUIRE(seal(*f.drive, object, 1, 6) == Sealed::done);
  REQUIRE(f.put("a", "object"));  // of a higher generation than all of them
  f.quiesce();
  CHECK(clean({}) == 0);
  auto writing = wait_for(write_body(*f.drive, object.slices[2])).value();
  CHECK(clean({}) == 0);
  old.bring_back();
  CHECK(clean({}) == 1);
  CHECK(f.data_files().size() == 4);
  // One without an entry is what a start would take for a slice.
  const KeptFiles all(f, "all");
  REQUIRE(wait_for(f.drive->drop_slice(object.key(1), gen(6))).value());
  all.bring_back();
  CHECK(clean({}) == 0);
  writing.reset();
  f.quiesce();
  CHECK(f.data_files().size() == 3);
  CHECK(wait_for(f.drive->known_files({kSliceBucket})).value().dead.size() == 1);
  f.drive->forget_bucket(kSliceBucket);
  f.quiesce();
  CHECK(clean({.dead = {kSliceBucket}, .only = {}}) == 1);
  CHECK(f.data_files().empty());
}

/// Does `work` until it comes to the point, and then starts anew on what is there by then: what was
/// under way takes nothing back.
template <class Work>
void crash_at(Fixture& f, const std::string& point, const Work& work) {
  INFO(point);
  fail_point::set(point + "=error");
  f.files->fail_remove = true;
  CHECK_FALSE(work());
  f.quiesce();
  fail_point::set("");
  f.open();
}

TEST_CASE("slice: a seal that a crash ends leaves nothing, or the slice",
          "[target][drive][slice]") {
  const CutObject object;
  for (const bool lost : {false, true})
    for (const std::string point :
         {"drive.format_raised", "put.before_attribute", "put.before_fsync", "put.before_dir_fsync",
          "put.before_index"}) {
      Fixture f;
      const bool sealed_then = point != "drive.format_raised" && point != "put.before_attribute";
      REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
      f.open();  // the format is looked at once a start
      crash_at(f, point, [&] { return seal(*f.drive, object, 0, 6).has_value(); });
      if (lost) {
        f.lose_index();
        f.open();
      }
      INFO(point << (lost ? " and the index is lost" : ""));
      CHECK(sealed_at(*f.drive, object.key(0)) == (sealed_then ? 6 : 5));
      CHECK(read_slice(f, object.key(0)) == object.slices[0]);
      CHECK(f.data_files().size() == 1);
      REQUIRE(seal(*f.drive, object, 0, 7) == Sealed::done);
      CHECK(sealed_at(*f.drive, object.key(0)) == 7);
    }
}

TEST_CASE("slice: a drop that a crash ends leaves the slice, to be asked about again",
          "[target][drive][slice]") {
  const CutObject object;
  for (const std::string point : {"slice.before_drop", "slice.before_unlink"}) {
    Fixture f;
    REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
    crash_at(f, point,
             [&] { return wait_for(f.drive->drop_slice(object.key(0), gen(5))).has_value(); });
    INFO(point);
    CHECK(sealed_at(*f.drive, object.key(0)) == 5);
    CHECK(wait_for(f.drive->drop_slice(object.key(0), gen(5))).value());
    f.open();
    CHECK(sealed_at(*f.drive, object.key(0)) == 0);
    CHECK(f.data_files().empty());
  }
}

TEST_CASE("slice: a raise that a crash ends leaves the old generation or the new",
          "[target][drive][slice]") {
  const CutObject object;
  for (const std::string point :
       {"patch.before_attribute", "patch.before_fsync", "patch.before_index"}) {
    Fixture f;
    REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done);
    crash_at(f, point,
             [&] { return wait_for(f.drive->raise_slice(object.key(0), gen(6))).has_value(); });
    INFO(point);
    CHECK(sealed_at(*f.drive, object.key(0)) == (point == "patch.before_attribute" ? 5 : 6));
    CHECK(read_slice(f, object.key(0)) == object.slices[0]);
  }
}

/// A drive with an identity of format 1, as those before have.
DriveIdentity give_identity(Fixture& f) {
  DriveIdentity identity{1, "c", "d1", "t1", f.directory.path(), {}};
  identity.siblings["d1"] = {f.directory.path(), 0};
  REQUIRE(write_identity(*f.files, identity));
  return identity;
}

int format_of(const Fixture& f) {
  std::ifstream file(f.directory.path() + "/" + kIdentityFile);
  return nlohmann::json::parse(file).at("format");
}

TEST_CASE("drive format: it is raised before the first slice or coded record, and stays",
          "[target][drive][slice][identity]") {
  Fixture f;
  const CutObject object;
  const DriveIdentity before = give_identity(f);
  REQUIRE(f.put("x", "plain"));
  CHECK(format_of(f) == 1);
  SECTION("a slice") { REQUIRE(seal(*f.drive, object, 0, 5) == Sealed::done); }
  SECTION("a coded record") {
    f.durability = GENERATE(cluster::Durability::full, cluster::Durability::nosync);
    const auto put = [&]() -> Task<Status> {
      CO_TRY(auto file, co_await f.drive->create(0, true));
      Drive::Publication publication;
      publication.durability = f.durability;
      publication.attribute.bucket_id = kSliceBucket;
      publication.attribute.name = "a";
      io::ObjectRecord& record = publication.attribute.record;
      record.file = file->name();
      record.generation = gen(1);
      record.coding = io::Coding{io::Coding::Layout::striped, 1, 1, 512, 1, gen(1), {"", ""}, ""};
      co_return co_await f.drive->publish(*file, publication);
    };
    REQUIRE(wait_for(put()));
  }
  CHECK(format_of(f) == 2);
  // A caller that knows the identity from before writes the format back as it is.
  auto later = before;
  later.siblings["d2"] = {"/d2", 0};
  REQUIRE(f.drive->keep_identity(later));
  CHECK(format_of(f) == 2);
  REQUIRE(wait_for(f.drive->drop_slice(object.key(0), gen(9))));
  f.open();
  CHECK(format_of(f) == 2);
  const auto now = read_identity(*f.files).value();
  CHECK(now->siblings == later.siblings);
  auto other = later;
  other.drive = "d7";
  CHECK_FALSE(f.drive->keep_identity(other));
}

TEST_CASE("drive format: a crash leaves it raised at most without a slice, never a slice without",
          "[target][drive][slice][identity]") {
  Fixture f;
  const CutObject object;
  give_identity(f);
  fail_point::set("drive.format_raised=error");
  CHECK_FALSE(seal(*f.drive, object, 0, 5));
  f.quiesce();
  fail_point::set("");
  f.open();
  CHECK(format_of(f) == 2);
  CHECK(sealed_at(*f.drive, object.key(0)) == 0);
}

TEST_CASE("drive format: one that this program does not know is refused, with both numbers",
          "[target][identity]") {
  DriveIdentity ours{1, "c", "d1", "t1", "/d1", {{"d1", {"/d1", 0}}}};
  CHECK(plan_drives({{"/d1", ours, true}}, "c", {}, "n"));
  ours.format = 2;
  const auto plan = plan_drives({{"/d1", ours, true}}, "c", {}, "n");
  REQUIRE(plan);
  CHECK(plan->use.front().identity.format == 2);
  for (const int format : {0, 3}) {
    ours.format = format;
    const auto refused = plan_drives({{"/d1", ours, true}}, "c", {}, "n");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::conflict);
    CHECK(refused.error().message == fmt::format("drive /d1 has format {}, this program "
                                                 "understands at most 2",
                                                 format));
  }
}

}  // namespace drive_slices_test
