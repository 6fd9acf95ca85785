#include "target/drive/slice_pages.h"

#include <catch2/catch.hpp>

#include "tests/unit/slice_fixture.h"

namespace slice_pages_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;

using Keys = std::vector<SliceKey>;

const CutObject& first() {
  static const CutObject object(700, 5);
  return object;
}

const CutObject& second() {
  static const CutObject object(700, 6);
  return object;
}

/// The drive of a fixture with slices 0, 1, and the full copy of the first object, and slices 0 and
/// 1 of the second. They differ in their sets.
struct FiveSlices : Fixture {
  FiveSlices() {
    const std::vector<std::uint8_t> indexes{0, 1, io::kFullCopy};
    for (const std::uint8_t index : indexes)
      REQUIRE(seal(*drive, first(), index, 5) == Drive::Sealed::done);
    REQUIRE(seal(*drive, second(), 1, 5) == Drive::Sealed::done);
    REQUIRE(seal(*drive, second(), 0, 5) == Drive::Sealed::done);
  }
};

void take_key(const SliceKey& key, const io::ObjectRecord&, Keys& to) { to.push_back(key); }

void take_cut(const SliceKey& key, const io::ObjectRecord& record, Keys& to) {
  if (record.slice && key.index != io::kFullCopy) to.push_back(key);
}

std::vector<Keys> all_pages(SlicePages<SliceKey> pages) {
  std::vector<Keys> out;
  while (pages.more()) {
    auto page = wait_for(pages.next());
    REQUIRE(page.has_value());
    out.push_back(std::move(*page));
  }
  return out;
}

TEST_CASE("slice pages: of a bucket without slices one is empty", "[target][drive][slice]") {
  Fixture f;
  REQUIRE(f.put("a", "no slice").has_value());
  CHECK(all_pages({*f.drive, kSliceBucket, take_key}) == std::vector<Keys>{{}});
}

TEST_CASE("slice pages: each slice once, whatever ends a page", "[target][drive][slice]") {
  FiveSlices f;
  const SliceKey a = first().key(0);
  const SliceKey b = first().key(1);
  const SliceKey full = first().key(io::kFullCopy);
  const SliceKey c = second().key(0);
  const SliceKey d = second().key(1);
  const auto pages = [&](PageSize size, std::optional<SliceKey> after = std::nullopt) {
    return all_pages({*f.drive, kSliceBucket, take_cut, size, std::move(after)});
  };
  CHECK(pages({}) == std::vector<Keys>{{a, b, c, d}});
  CHECK(pages({.items = 2}) == std::vector<Keys>{{a, b}, {c, d}, {}});
  // The full copy counts as looked at, and is no item.
  CHECK(pages({.records = 2}) == std::vector<Keys>{{a, b}, {c}, {d}});
  CHECK(pages({.records = 2}, full) == std::vector<Keys>{{c, d}, {}});
  CHECK(all_pages({*f.drive, kSliceBucket, take_key}) == std::vector<Keys>{{a, b, full, c, d}});
}

TEST_CASE("slice pages: what changes between pages does not end or repeat them",
          "[target][drive][slice]") {
  FiveSlices f;
  SlicePages<SliceKey> pages(*f.drive, kSliceBucket, take_key, {.items = 2});
  CHECK(wait_for(pages.next()).value() == Keys{first().key(0), first().key(1)});
  CHECK(pages.last() == first().key(1));
  REQUIRE(wait_for(f.drive->drop_slice(first().key(1), gen(5))).value());  // the last one
  REQUIRE(wait_for(f.drive->drop_slice(second().key(0), gen(5))).value());
  REQUIRE(seal(*f.drive, first(), 2, 5) == Drive::Sealed::done);  // on the next page
  CHECK(wait_for(pages.next()).value() == Keys{first().key(2), first().key(io::kFullCopy)});
  CHECK(wait_for(pages.next()).value() == Keys{second().key(1)});
  CHECK_FALSE(pages.more());
}

}  // namespace slice_pages_test
