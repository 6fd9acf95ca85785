// Slices on the drives of one target: which drive a new one goes to, which of two counts, and moves
// between drives.

#include "target/store/slices_here.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "common/base/fail_points.h"
#include "target/node/moves.h"
#include "target/rebalance/slice_moves.h"
#include "target/request/list_moving.h"
#include "tests/unit/slices_here_fixture.h"

namespace slices_here_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;
using Sealed = Drive::Sealed;
using Room = DriveView::Room;

TEST_CASE("slices here: a drive without a slice of the set comes first, by rank",
          "[target][slice]") {
  using Order = std::vector<std::size_t>;
  const DriveView empty{true, 0, Room::free};
  const DriveView above{true, 0, Room::above_watermark};
  const auto fuller = [](std::uint64_t left) {
    return DriveView{true, 0, Room::above_watermark, left};
  };
  const DriveView full{true, 0, Room::none};
  const DriveView has_one{true, 1, Room::free};
  const DriveView has_two{true, 2, Room::free};
  const DriveView closed{false, 0, Room::free};
  struct Row {
    std::vector<DriveView> views;
    std::size_t rank;
    Order wanted;
  };
  for (const Row& row : std::vector<Row>{
           {{}, 0, {}},
           {{empty, empty, empty}, 0, {0, 1, 2}},
           {{empty, empty, empty}, 1, {1, 2, 0}},
           {{empty, empty, empty}, 2, {2, 0, 1}},
           {{above, empty, empty}, 0, {1, 2, 0}},
           {{above, empty, empty}, 2, {2, 1, 0}},
           {{has_one, empty, above}, 0, {1, 2}},
           {{has_one, has_one, empty}, 0, {2}},
           // There are as many drives as slices: two on one would die together.
           {{has_one, has_one, full}, 0, {}},
           {{has_one, has_one, full}, 2, {}},
           {{closed, closed}, 0, {}},
           // Fewer drives than slices.
           {{has_one, has_one, closed}, 0, {0, 1}},
           {{has_one, has_one, closed}, 2, {0, 1}},
           {{has_one, has_one}, 3, {1, 0}},
           {{has_two, has_one}, 0, {1, 0}},
           {{has_one}, 1, {0}},
           {{has_one, empty, closed}, 2, {1, 0}},
           {{fuller(5), empty, fuller(7), fuller(6)}, 0, {1, 2, 3, 0}},
       }) {
    INFO("views " << row.views.size() << " rank " << row.rank);
    CHECK(drives_for_slice(row.views, row.rank) == row.wanted);
  }
}

TEST_CASE("slices here: slices of a set go to different drives, also at once", "[target][slice]") {
  Store f(3);
  const CutObject object;
  const auto first = f.create(object, 0).value();
  const auto second = f.create(object, 1).value();  // of the same rank, as if asked by another
  CHECK(&first->file().drive() != &second->file().drive());
  CHECK(wait_for(f.slices().any()).value());
  REQUIRE(f.seal(object, *first, 5) == Sealed::done);
  const auto third = f.create(object, 2).value();
  CHECK(&third->file().drive() != &first->file().drive());
  CHECK(&third->file().drive() != &second->file().drive());
  // A remade one may take the place where it is, and another set has the whole choice.
  CHECK(f.create(object, 0).has_value());
  CHECK(f.create(CutObject(700, 99), 0).has_value());
  // A fourth has no drive of its own: there are fewer drives than slices.
  CHECK(f.create(object, io::kFullCopy, 3).has_value());
}

TEST_CASE("slices here: an abandoned slice leaves nothing", "[target][slice]") {
  Store f(2);
  const CutObject object;
  auto slice = f.create(object, 0).value();
  const std::size_t drive = f.index_of(slice->file().drive());
  CHECK(wait_for(f.slices().any()).value());
  slice.reset();
  CHECK_FALSE(wait_for(f.slices().any()).value());
  const auto again = f.create(object, 1).value();
  CHECK(f.index_of(again->file().drive()) == drive);
}

TEST_CASE("slices here: a drive where no file can be made is passed over", "[target][slice]") {
  Store f(2);
  const CutObject object;
  const std::size_t preferred = f.index_of(f.create(object, 0).value()->file().drive());
  const std::filesystem::path directory = f.directories[preferred]->path();
  std::filesystem::rename(directory / "data", directory / "elsewhere");
  const auto slice = f.create(object, 0);
  REQUIRE(slice.has_value());
  CHECK(f.index_of((*slice)->file().drive()) != preferred);
}

TEST_CASE("slices here: no drive that takes files is another error than no room",
          "[target][slice]") {
  Store f(2);
  const CutObject object;
  SlicesHere::Wanted wanted;
  wanted.bytes = 1ULL << 60U;
  const auto key = object.key(0);
  CHECK(wait_for(f.slices().create(Store::name_of(object), key, wanted)).error().code ==
        Errc::no_space);
  f.drive(0)->set_disabled(true);
  f.drive(1)->set_disabled(true);
  CHECK(f.create(object, 0).error().code == Errc::unavailable);
}

TEST_CASE("slices here: one of each key is left, on whatever drive", "[target][slice]") {
  Store f(2);
  const CutObject object;
  const SliceKey key = object.key(0);
  CHECK_FALSE(wait_for(f.slices().find(key)).value());
  CHECK(wait_for(f.slices().open(key)).error().code == Errc::object_not_found);
  f.drive(1)->set_disabled(true);  // it may have it
  CHECK(wait_for(f.slices().open(key)).error().code == Errc::unavailable);
  f.drive(1)->set_disabled(false);
  f.put_on(0, object, 0, 5);
  CHECK(f.put(object, 0, 5) == Sealed::had_it);
  CHECK(f.put(object, 0, 4) == Sealed::had_newer);
  // On the other drive, in place of that on the first.
  SlicesHere::Wanted wanted;
  wanted.not_on = f.drive(0).get();
  const auto slice = wait_for(f.slices().create(Store::name_of(object), key, wanted)).value();
  CHECK(f.seal(object, *slice, 6) == Sealed::done);
  CHECK(f.where(key) == std::map<std::size_t, std::uint64_t>{{1, 6}});
  CHECK(f.put(object, 0, 6) == Sealed::had_it);
  CHECK(f.put(object, 0, 6, true) == Sealed::done);
  CHECK(f.where(key).size() == 1);
  const auto open = wait_for(f.slices().open(key)).value();
  CHECK(wait_for(read_slice_task(open)).value() == object.slices[0]);
}

TEST_CASE("slices here: of two that were apart the higher is read, raised, and dropped last",
          "[target][slice]") {
  Store f(2);
  const CutObject object;
  const SliceKey key = object.key(0);
  f.put_on(0, object, 0, 5);
  f.put_on(1, object, 0, 7);
  const auto found = wait_for(f.slices().find(key)).value();
  REQUIRE(found);
  CHECK(found->drive == f.drive(1).get());
  CHECK(found->record.generation == gen(7));
  CHECK(wait_for(f.drive(1)->raise_slice(key, gen(9))).value());
  CHECK(f.where(key) == std::map<std::size_t, std::uint64_t>{{0, 5}, {1, 9}});
  CHECK(wait_for(f.slices().drop(key, gen(8))).value());
  CHECK(f.where(key) == std::map<std::size_t, std::uint64_t>{{1, 9}});
  CHECK_FALSE(wait_for(f.slices().drop(key, gen(8))).value());
  // Out of service it is not there, and not touched.
  f.drive(1)->set_disabled(true);
  CHECK_FALSE(wait_for(f.slices().find(key)).value());
  CHECK_FALSE(wait_for(f.slices().drop(key, gen(9))).value());
  f.drive(1)->set_disabled(false);
  CHECK(wait_for(f.slices().drop(key, gen(9))).value());
  CHECK_FALSE(wait_for(f.slices().any()).value());
}

TEST_CASE("slices here: a copy takes the place of its source under the same generation",
          "[target][slice]") {
  Store f(2);
  const CutObject object;
  const SliceKey key = object.key(0);
  const auto copy_from_first = [&]() -> Task<Result<bool>> {
    SlicesHere::Wanted wanted;
    wanted.not_on = f.drive(0).get();
    CO_TRY(const auto slice, co_await f.slices().create(Store::name_of(object), key, wanted));
    auto writing =
        slice->file().drive().write(slice->file(), std::as_bytes(std::span(object.slices[0])), 0);
    CO_TRY_OK(co_await writing.get());
    co_return co_await f.slices().replace(*slice, object.order(0, 1), *f.drive(0));
  };
  CHECK_FALSE(wait_for(copy_from_first()).value());  // there is none to be replaced
  f.put_on(0, object, 0, 5);
  REQUIRE(wait_for(f.drive(0)->raise_slice(key, gen(6))).value());
  CHECK(wait_for(copy_from_first()).value());
  CHECK(f.where(key) == std::map<std::size_t, std::uint64_t>{{1, 6}});
  // One that was away came back with an older one: what is read through counts as the newest.
  f.put_on(0, object, 0, 4);
  CHECK(wait_for(copy_from_first()).value());
  CHECK(f.where(key) == std::map<std::size_t, std::uint64_t>{{1, 6}});
  const auto open = wait_for(f.slices().open(key)).value();
  CHECK(wait_for(read_slice_task(open)).value() == object.slices[0]);
}

TEST_CASE("slices here: a full copy is found on any drive", "[target][slice]") {
  Store f(2);
  const CutObject object;
  f.put_on(1, object, io::kFullCopy, 5);
  const auto full_copy = wait_for(f.slices().open(object.key(io::kFullCopy))).value();
  REQUIRE(full_copy);
  CHECK(full_copy->file_bytes() == object.content.size());
  CHECK(&full_copy->drive() == f.drive(1).get());
}

/// A walk over a target's drives that moves slices of the bucket of these tests.
struct Mover {
  Moves moves{"t1"};
  std::optional<Moves::Walk> walk;
  std::shared_ptr<cluster::ClusterState> state = std::make_shared<cluster::ClusterState>();
  api::CopyProgress counts;

  Mover() {
    cluster::BucketRecord bucket;
    bucket.id = kSliceBucket;
    bucket.name.name = "b";
    state->bmd.buckets[bucket.name] = bucket;
    REQUIRE(wait_for(begin()));
  }
  Task<Status> begin() {
    auto begun = co_await moves.begin_resilver();
    if (!begun) co_return fail(begun.error());
    walk.emplace(std::move(*begun));
    co_return Status();
  }
  Status operator()(Store& f, Drive& from) {
    const Pace pace{moves.limits, *walk, system_clock(), {}};
    return wait_for(move_slices(*f.store, state, from, pace, counts));
  }
};

TEST_CASE("slice moves: all leave a drive that is being emptied, with their generations",
          "[target][slice][move]") {
  Store f(2);
  Mover move;
  const CutObject object(100'000);
  const CutObject other(700, 99);
  const CutObject large(2 * kBlockBytes + 5, 98);
  f.put_on(0, object, 0, 5);
  f.put_on(0, other, 1, 6);
  f.put_on(0, large, io::kFullCopy, 7);
  f.put_on(1, object, 1, 5);
  CHECK_FALSE(wait_for(holds_nothing(*f.store, move.state)).value());
  REQUIRE(move(f, *f.drive(0)));  // each is alone there
  CHECK(move.counts.objects == 0);
  f.store->set_draining(*f.drive(0), true);
  REQUIRE(move(f, *f.drive(0)));
  CHECK(move.counts.objects == 3);
  CHECK_FALSE(wait_for(f.drive(0)->has_slices()).value());
  const auto at = [](std::uint64_t counter) {
    return std::map<std::size_t, std::uint64_t>{{1, counter}};
  };
  CHECK(f.where(object.key(0)) == at(5));
  CHECK(f.where(other.key(1)) == at(6));
  CHECK(f.where(large.key(io::kFullCopy)) == at(7));
  const auto slice = wait_for(f.slices().open(object.key(0))).value();
  CHECK(wait_for(read_slice_task(slice)).value() == object.slices[0]);
  CHECK(wait_for(f.drive(1)->slice_label(object.key(0))).value() == object.label(0));
  const auto full_copy = wait_for(f.slices().open(large.key(io::kFullCopy))).value();
  REQUIRE(full_copy);
  CHECK(full_copy->has_checksums());
  CHECK(full_copy->record().xxh64 == xxh64(large.content));
}

TEST_CASE("slice moves: two of a set on one drive part when another has none",
          "[target][slice][move]") {
  Store f(3);
  Mover move;
  const CutObject object;
  f.put_on(0, object, 0, 5);
  f.put_on(0, object, 1, 5);
  f.put_on(0, object, 2, 5);
  f.put_on(1, object, io::kFullCopy, 5);
  REQUIRE(move(f, *f.drive(0)));
  CHECK(f.where(object.key(0)).contains(0));
  CHECK(f.where(object.key(1)).contains(2));
  CHECK(f.where(object.key(2)).contains(0));  // no drive is left that has none
  CHECK(move.counts.objects == 1);
  REQUIRE(move(f, *f.drive(0)));
  CHECK(move.counts.objects == 1);
}

TEST_CASE("slice moves: what cannot be read stays, and the drive with it",
          "[target][slice][move]") {
  Store f(2);
  Mover move;
  const CutObject object;
  f.put_on(0, object, 0, 5);
  f.put_on(0, object, 1, 5);
  const auto record = wait_for(f.drive(0)->find_slice(object.key(0))).value();
  REQUIRE(record);
  {
    std::fstream file(f.directories[0]->path() + "/" + record->file.path(),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(600) << "~~~~";
  }
  f.store->set_draining(*f.drive(0), true);
  const Status moved = move(f, *f.drive(0));
  REQUIRE_FALSE(moved);
  CHECK(moved.error().code == Errc::corrupt);
  CHECK(f.where(object.key(0)).contains(0));
  CHECK(f.where(object.key(1)).contains(1));
}

TEST_CASE("slice moves: a crash between the two steps leaves two that are one after the next walk",
          "[target][slice][move]") {
  Store f(2);
  Mover move;
  const CutObject object;
  f.put_on(0, object, 0, 5);
  f.store->set_draining(*f.drive(0), true);
  fail_point::set("slice.before_drop_moved=error");
  CHECK_FALSE(move(f, *f.drive(0)));
  fail_point::set("");
  CHECK(f.where(object.key(0)) == std::map<std::size_t, std::uint64_t>{{0, 5}, {1, 5}});
  REQUIRE(move(f, *f.drive(0)));
  CHECK(f.where(object.key(0)) == std::map<std::size_t, std::uint64_t>{{1, 5}});
}

}  // namespace slices_here_test
