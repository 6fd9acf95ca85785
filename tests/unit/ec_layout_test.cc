// Where an object's bytes lie in its slices, compared with laying them out one by one.

#include "ec/layout.h"
#include "tests/unit/ec_fixture.h"

namespace ec_layout_test {

using namespace tarn;
using namespace tarn::ec;
using namespace tarn::ec::testing;

/// Where each byte of an object lies: found by going through all stripes and units in order.
struct Place {
  std::uint64_t stripe;
  std::size_t slice;
  std::size_t offset;
};

std::vector<Place> places_of(const Layout& layout) {
  std::vector<Place> places;
  for (std::uint64_t stripe = 0; stripe < layout.stripes(); ++stripe)
    for (std::size_t slice = 0; slice < layout.geometry().k; ++slice)
      for (std::size_t at = 0; at < layout.unit_bytes(stripe); ++at)
        if (places.size() < layout.object_bytes()) places.push_back({stripe, slice, at});
  return places;
}

TEST_CASE("ec: every byte has one place, and ranges find it", "[ec]") {
  const std::uint32_t seed = test_seed();
  INFO("TARN_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (const std::size_t k : {1U, 2U, 3U, 5U, 8U}) {
    const Geometry geometry{k, 2, 512};
    for (const std::size_t size : telling_sizes(geometry)) {
      const Layout layout = layout_of(geometry, size);
      const auto places = places_of(layout);
      INFO("k " << k << ", " << size << " bytes");
      REQUIRE(places.size() == size);
      for (int round = 0; round < 12; ++round) {
        std::uint64_t begin = std::uniform_int_distribution<std::uint64_t>(0, size)(random);
        std::uint64_t end = std::uniform_int_distribution<std::uint64_t>(0, size)(random);
        if (round == 0) begin = 0, end = size;
        if (begin > end) std::swap(begin, end);
        INFO("bytes " << begin << " to " << end);
        // The parts, in order, are the range.
        std::uint64_t at = begin;
        const Stripes stripes = layout.stripes_of(begin, end);
        for (std::uint64_t stripe = stripes.first; stripe < stripes.first + stripes.count; ++stripe)
          for (std::size_t slice = 0; slice < k; ++slice) {
            const Part part = layout.part_of(stripe, slice, begin, end);
            REQUIRE(layout.slices_of(stripe, begin, end).contains(slice) == (part.bytes > 0));
            if (part.bytes == 0) continue;
            REQUIRE(at + part.bytes <= end);
            REQUIRE(places[at].stripe == stripe);
            REQUIRE(places[at].slice == slice);
            REQUIRE(places[at].offset == part.offset);
            REQUIRE(places[at + part.bytes - 1].offset == part.offset + part.bytes - 1);
            at += part.bytes;
          }
        REQUIRE(at == end);
      }
    }
  }
}

TEST_CASE("ec: blocks lie one behind the other, the last as short as it can be", "[ec]") {
  const Geometry geometry{8, 2};
  const Layout empty = layout_of(geometry, 0);
  CHECK(empty.stripes() == 0);
  CHECK(empty.blocks_bytes() == 0);
  CHECK(empty.stripes_of(0, 0) == Stripes{});
  CHECK(empty.part_of(0, 0, 0, 0) == Part{});

  const Layout one = layout_of(geometry, 1);
  CHECK(one.stripes() == 1);
  CHECK(one.blocks_bytes() == 64 + kFooterBytes);

  const std::uint64_t stripe = geometry.stripe_bytes();
  CHECK(stripe == 8UL * (65536 - 32));
  const Layout two = layout_of(geometry, stripe + 300'000);
  CHECK(two.stripes() == 2);
  CHECK(two.block_offset(1) == kBlockBytes);
  CHECK(two.unit_bytes(1) == 37'504);  // 300,000 / 8, rounded up to 64
  CHECK(two.blocks_bytes() == kBlockBytes + 37'504 + kFooterBytes);
  CHECK(two.file_range({0, 2}) == FileRange{0, two.blocks_bytes()});
  CHECK(two.file_range({1, 1}) == FileRange{kBlockBytes, 37'504 + kFooterBytes});
  CHECK(two.stripe_end(1) == two.object_bytes());

  // One byte less than a stripe: no unit is longer than a whole one, although that is no multiple
  // of the alignment.
  CHECK(layout_of(geometry, stripe - 1).unit_bytes(0) == geometry.unit_bytes());
}

TEST_CASE("ec: slices take (k+m)/k of the object, and 0.2 percent at most", "[ec]") {
  for (const auto& [k, m] :
       std::vector<std::pair<std::size_t, std::size_t>>{{4, 2}, {8, 2}, {10, 4}, {28, 4}}) {
    for (const std::uint64_t megabytes : {64U, 1024U}) {
      const Layout layout = layout_of({k, m}, megabytes << 20U);
      const double stored = static_cast<double>((layout.blocks_bytes() + 300) * (k + m));
      const double least =
          static_cast<double>(layout.object_bytes() * (k + m)) / static_cast<double>(k);
      INFO(k << "+" << m << ", " << megabytes << " MiB");
      CHECK(stored <= least * 1.002);
    }
    // A small object is not padded to a stripe.
    const Layout small = layout_of({k, m}, 100'000);
    CHECK(small.blocks_bytes() * k <= 100'000 + k * (kUnitAlignment + kFooterBytes));
  }
}

TEST_CASE("ec: what has no layout is refused in words", "[ec]") {
  for (const std::size_t block : {0U, 256U, 513U, 65'535U, 131'072U}) {
    const auto layout = Layout::of({4, 2, block}, 1);
    REQUIRE_FALSE(layout.has_value());
    CHECK(layout.error().code == Errc::invalid_argument);
    CHECK(layout.error().message.find("power of two") != std::string::npos);
  }
  CHECK_FALSE(Layout::of({4, 0}, 1).has_value());
  CHECK_FALSE(Layout::of({4, 2}, kObjectBytesMax + 1).has_value());
  const auto largest = Layout::of({1, 31, kBlockBytesMin}, kObjectBytesMax);
  REQUIRE(largest.has_value());
  CHECK(largest->blocks_bytes() > kObjectBytesMax);
}

}  // namespace ec_layout_test
