// Slices that lie on several drives of a target: how they are found, and which of them stays.

#include "target/repair/double_slices.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "common/base/fail_points.h"
#include "target/repair/drives_here.h"
#include "target/store/slices_here.h"
#include "tests/unit/slices_here_fixture.h"

namespace double_slices_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;
using Room = DriveView::Room;

using Where = std::map<std::size_t, std::uint64_t>;

Result<std::size_t> keep_one(Store& f, const CutObject& object, std::uint8_t index,
                             const Toll& toll = {}) {
  return wait_for(f.slices().keep_one(Store::name_of(object), object.key(index), toll));
}

/// The drive that a name likes best.
std::size_t liked_by(Store& f, const CutObject& object) {
  const auto slice = f.create(object, 0).value();
  return f.index_of(slice->file().drive());
}

void damage(Store& f, std::size_t drive, const SliceKey& key) {
  const auto record = wait_for(f.drive(drive)->find_slice(key)).value();
  REQUIRE(record);
  std::fstream file(f.directories[drive]->path() + "/" + record->file.path(),
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(600) << "~~~~";
}

TEST_CASE("double slices: drives that come and go are noticed", "[target][slice]") {
  Store f(3);
  DrivesHere here;
  auto drives = f.store->drives();
  const auto look = [&] {
    const auto change = here.look(drives);
    return std::pair(change.came, change.went);
  };
  CHECK(look() == std::pair(true, false));
  CHECK(look() == std::pair(false, false));
  drives[1]->set_disabled(true);
  CHECK(look() == std::pair(false, true));
  drives[1]->set_disabled(false);
  CHECK(look() == std::pair(true, false));
  const auto last = drives.back();
  drives.pop_back();
  CHECK(look() == std::pair(false, true));
  drives.push_back(last);
  CHECK(look() == std::pair(true, false));
  // Went and came back between two looks: it is another one.
  Store other(1);
  drives.back() = other.drive(0);
  CHECK(look() == std::pair(true, true));
}

TEST_CASE("double slices: which drive is to keep one", "[target][slice]") {
  const DriveView good{true, 0, Room::free};
  const DriveView above{true, 0, Room::above_watermark};
  const DriveView has_other{true, 1, Room::free};
  const DriveView has_others{true, 2, Room::free};
  const DriveView leaves{false, 0, Room::free};
  struct Row {
    std::vector<DriveView> views;
    std::vector<std::size_t> wanted;
  };
  for (const Row& row : std::vector<Row>{
           {{}, {}},
           {{good, good}, {0, 1}},
           {{has_other, good}, {1, 0}},
           {{has_others, has_other}, {1, 0}},
           {{above, good}, {1, 0}},
           // Two that die together are worse than a drive that is full.
           {{has_other, above}, {1, 0}},
           {{leaves, has_others}, {1, 0}},
           {{leaves, has_other, above, good, good}, {3, 4, 2, 1, 0}},
       })
    CHECK(best_to_keep(row.views) == row.wanted);
}

TEST_CASE("double slices: keys that several drives have are found, page by page",
          "[target][slice]") {
  const auto key = [](const std::string& name, std::uint8_t index) {
    return SliceKey{kSliceBucket, name, 7, index};
  };
  std::vector<SliceRun> runs(3);
  CHECK(take_doubles(runs).empty());  // nothing is known yet
  runs[0] = {{key("a", 0), key("b", 0), key("c", 0)}, false};
  runs[1] = {{key("a", 0), key("a", 1), key("b", 0)}, true};
  runs[2] = {{key("b", 0)}, false};
  CHECK(take_doubles(runs) == std::vector<SliceKey>{key("a", 0), key("b", 0)});
  CHECK(runs[0].keys.size() == 1);  // the next page of another drive may have it
  CHECK(runs[1].keys.empty());
  runs[1] = {{key("c", 0), key("d", 0)}, false};
  CHECK(take_doubles(runs) == std::vector<SliceKey>{key("c", 0)});
  for (const SliceRun& run : runs) CHECK(run.keys.empty());
  CHECK(take_doubles({}).empty());
}

TEST_CASE("double slices: one is left where the name wants it, with the highest generation",
          "[target][slice]") {
  Store f(2);
  const std::uint8_t index = GENERATE(std::uint8_t{0}, io::kFullCopy);
  const auto counter = GENERATE(std::uint64_t{4}, std::uint64_t{5}, std::uint64_t{6});
  const CutObject object;
  const SliceKey key = object.key(index);
  const std::size_t liked = liked_by(f, object);
  f.put_on(liked, object, index, 5);
  CHECK(keep_one(f, object, index) == 0U);
  f.put_on(1 - liked, object, index, counter);
  CHECK(keep_one(f, object, index) == 1U);
  CHECK(f.where(key) == Where{{liked, std::max(std::uint64_t{5}, counter)}});
  CHECK(keep_one(f, object, index) == 0U);
  const auto open = wait_for(f.slices().open(key)).value();
  CHECK(wait_for(read_slice_task(open)).value() == object.body(index));
  // Not its entry alone has gone.
  std::size_t files = 0;
  for (const auto& directory : f.directories)
    for (const auto& each :
         std::filesystem::recursive_directory_iterator(directory->path() + "/data"))
      files += each.is_regular_file() ? 1 : 0;
  CHECK(files == 1);
}

TEST_CASE("double slices: the one that lies apart from others of its set stays",
          "[target][slice]") {
  Store f(2);
  const CutObject object;
  const std::size_t liked = liked_by(f, object);
  f.put_on(liked, object, 0, 5);
  f.put_on(1 - liked, object, 0, 5);
  f.put_on(liked, object, 1, 5);
  CHECK(keep_one(f, object, 0) == 1U);
  CHECK(f.where(object.key(0)) == Where{{1 - liked, 5}});
  CHECK(f.where(object.key(1)) == Where{{liked, 5}});
}

TEST_CASE("double slices: a drive that is being emptied does not keep one", "[target][slice]") {
  Store f(2);
  const CutObject object;
  const std::size_t liked = liked_by(f, object);
  f.put_on(liked, object, 0, 6);
  f.put_on(1 - liked, object, 0, 5);
  f.store->set_draining(*f.drive(liked), true);
  CHECK(keep_one(f, object, 0) == 1U);
  CHECK(f.where(object.key(0)) == Where{{1 - liked, 6}});
}

TEST_CASE("double slices: one that is damaged goes, and of two that are both stay",
          "[target][slice]") {
  Store f(2);
  const std::uint8_t index = GENERATE(std::uint8_t{0}, io::kFullCopy);
  const CutObject object;
  const SliceKey key = object.key(index);
  const std::size_t liked = liked_by(f, object);
  f.put_on(liked, object, index, 6);
  f.put_on(1 - liked, object, index, 5);
  damage(f, liked, key);
  SECTION("one") {
    CHECK(keep_one(f, object, index) == 1U);
    CHECK(f.where(key) == Where{{1 - liked, 6}});
    const auto open = wait_for(f.slices().open(key)).value();
    CHECK(wait_for(read_slice_task(open)).value() == object.body(index));
  }
  SECTION("both") {
    damage(f, 1 - liked, key);
    CHECK(keep_one(f, object, index).error().code == Errc::corrupt);
    CHECK(f.where(key) == Where{{liked, 6}, {1 - liked, 5}});
  }
}

TEST_CASE("double slices: what changes while it is read stays", "[target][slice]") {
  Store f(2);
  const CutObject object;
  const SliceKey key = object.key(0);
  const std::size_t liked = liked_by(f, object);
  f.put_on(liked, object, 0, 5);
  f.put_on(1 - liked, object, 0, 5);
  SECTION("it is made anew") {
    const Toll toll = [&](std::uint64_t) -> Task<Status> {
      static_cast<void>(co_await seal_task(*f.drive(liked), object.body(0), object.order(0, 7)));
      co_return Status();
    };
    CHECK(keep_one(f, object, 0, toll) == 0U);
    CHECK(f.where(key) == Where{{liked, 7}, {1 - liked, 5}});
  }
  SECTION("it goes, and what is left is the other") {
    const Toll toll = [&](std::uint64_t) -> Task<Status> {
      static_cast<void>(co_await f.drive(liked)->drop_slice(key, gen(5)));
      co_return Status();
    };
    CHECK_FALSE(keep_one(f, object, 0, toll).value_or(0));
    CHECK(f.where(key) == Where{{1 - liked, 5}});
  }
  SECTION("the other drive goes out of service") {
    const Toll toll = [&](std::uint64_t) -> Task<Status> {
      f.drive(1 - liked)->set_disabled(true);
      co_return Status();
    };
    CHECK(keep_one(f, object, 0, toll) == 0U);
    f.drive(1 - liked)->set_disabled(false);
    CHECK(f.where(key) == Where{{liked, 5}, {1 - liked, 5}});
  }
  SECTION("it is told to stop") {
    const Toll toll = [](std::uint64_t) -> Task<Status> {
      co_return fail(Errc::cancelled, "it was told to stop");
    };
    CHECK(keep_one(f, object, 0, toll).error().code == Errc::cancelled);
    CHECK(f.where(key) == Where{{liked, 5}, {1 - liked, 5}});
  }
}

TEST_CASE("double slices: a crash before one goes leaves both, with the higher generation",
          "[target][slice]") {
  Store f(2);
  const CutObject object;
  const std::size_t liked = liked_by(f, object);
  f.put_on(liked, object, 0, 5);
  f.put_on(1 - liked, object, 0, 6);
  fail_point::set("slice.before_drop_double=error");
  CHECK_FALSE(keep_one(f, object, 0));
  fail_point::set("");
  CHECK(f.where(object.key(0)) == Where{{liked, 6}, {1 - liked, 6}});
  CHECK(keep_one(f, object, 0) == 1U);
  CHECK(f.where(object.key(0)) == Where{{liked, 6}});
}

}  // namespace double_slices_test
