// Objects through their slices and back: whatever is lost, the bytes are those that came.

#include <algorithm>

#include "common/base/buffer_pool.h"
#include "common/base/hash.h"
#include "tests/unit/ec_fixture.h"

namespace ec_stream_test {

using namespace tarn;
using namespace tarn::ec;
using namespace tarn::ec::testing;

std::string flip(std::string text, std::size_t at) {
  text[at] = static_cast<char>(text[at] ^ 1);
  return text;
}

/// The blocks of the `lost` slices, made again from some of the others.
std::vector<std::string> rebuild(const Layout& layout, const std::vector<std::string>& slices,
                                 SliceNumbers sources, SliceNumbers lost) {
  std::vector<std::string> made(lost.size());
  for (Rebuilder rebuilder(layout, kSet, lost); !rebuilder.done(); rebuilder.next()) {
    for (const std::size_t slice : sources)
      REQUIRE(rebuilder.add(slice, block_of(slices[slice], rebuilder.block_range())));
    REQUIRE(rebuilder.ready());
    const auto blocks = rebuilder.blocks();
    REQUIRE(blocks.has_value());
    for (std::size_t i = 0; i < made.size(); ++i) append(made[i], (*blocks)[i]);
  }
  return made;
}

TEST_CASE("slices: whichever m of k + m <= 16 are lost, objects and slices come back", "[ec]") {
  const std::uint32_t seed = test_seed();
  INFO("TARN_TEST_SEED=" << seed);
  std::size_t erasures = 0;
  for (std::size_t n = 2; n <= kExhaustiveMax; ++n)
    for (std::size_t k = 1; k < n; ++k) {
      const Geometry geometry{k, n - k, kBlockBytesMin};
      // The first five with each loss, and one of the others in turn; all of them with small codes.
      const auto sizes = telling_sizes(geometry);
      std::vector<std::string> objects;
      std::vector<std::vector<std::string>> slices;
      for (const std::size_t size : sizes) {
        objects.push_back(random_text(size, seed + static_cast<std::uint32_t>(size)));
        slices.push_back(encode_object(geometry, objects.back()));
      }
      std::size_t turn = 0;
      for_each_set(n, n - k, [&](SliceNumbers lost) {
        const SliceNumbers alive = SliceNumbers::first(n) - lost;
        ++erasures;
        std::vector<std::size_t> with;
        const std::size_t in_turn = kBoundarySizes + turn++ % (sizes.size() - kBoundarySizes);
        for (std::size_t i = 0; i < sizes.size(); ++i)
          if (n <= 6 || i < kBoundarySizes || i == in_turn) with.push_back(i);
        for (const std::size_t i : with) {
          const Layout layout = layout_of(geometry, sizes[i]);
          const bool read = decode_object(layout, slices[i], alive, 0, sizes[i]) == objects[i];
          const auto made = rebuild(layout, slices[i], alive, lost);
          std::size_t next = 0;
          const bool same = std::all_of(lost.begin(), lost.end(), [&](std::size_t slice) {
            return made[next++] == slices[i][slice];
          });
          if (read && same) continue;
          INFO(k << "+" << n - k << ", " << sizes[i] << " bytes, lost " << std::hex << lost.bits());
          REQUIRE(read);
          REQUIRE(same);
        }
      });
    }
  if (kExhaustiveMax == 16) CHECK(erasures == 131'038);  // the sum of all (n over m)
}

TEST_CASE("slices: codes up to k + m = 32 with any losses, sampled", "[ec]") {
  const std::uint32_t seed = test_seed();
  INFO("TARN_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  for (int round = 0; round < 200; ++round) {
    const std::size_t n = 17 + below(16);
    const std::size_t k = 1 + below(n - 1);
    const Geometry geometry{k, n - k, std::size_t{512} << below(4)};
    const auto sizes = telling_sizes(geometry);
    const std::size_t size = sizes[below(sizes.size())];
    const std::string object = random_text(size, seed + static_cast<std::uint32_t>(round));
    const auto slices = encode_object(geometry, object, 1 + below(3000));
    SliceNumbers lost;
    while (lost.size() < n - k) lost.insert(below(n));
    const Layout layout = layout_of(geometry, size);
    const SliceNumbers alive = SliceNumbers::first(n) - lost;
    INFO(k << "+" << n - k << ", " << size << " bytes, lost " << std::hex << lost.bits());
    REQUIRE(decode_object(layout, slices, alive, 0, size) == object);
    const auto made = rebuild(layout, slices, alive, lost);
    std::size_t next = 0;
    for (const std::size_t slice : lost) REQUIRE(made[next++] == slices[slice]);
    // One more, and it is an error instead of wrong bytes.
    if (size > 0 && alive.size() > 1)
      REQUIRE(decode_object(layout, slices, alive - SliceNumbers{*alive.begin()}, 0, size)
                  .find("slices are there") != std::string::npos);
  }
}

TEST_CASE("slices: blocks of the real size", "[ec]") {
  const Geometry geometry{4, 2};
  for (const std::size_t size :
       {std::size_t{1'000'000}, geometry.stripe_bytes() * 3, geometry.stripe_bytes() * 3 + 1}) {
    const std::string object = random_text(size, 7);
    const auto slices = encode_object(geometry, object);
    const Layout layout = layout_of(geometry, size);
    for (const std::string& slice : slices) CHECK(slice.size() == layout.blocks_bytes());
    CHECK(decode_object(layout, slices, SliceNumbers::first(6), 0, size) == object);
    CHECK(decode_object(layout, slices, SliceNumbers{1, 3, 4, 5}, 0, size) == object);
  }
}

TEST_CASE("slices: ranges, with and without losses", "[ec]") {
  const std::uint32_t seed = test_seed();
  INFO("TARN_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const Geometry geometry{4, 2, kBlockBytesMin};
  for (const std::size_t size : telling_sizes(geometry)) {
    const std::string object = random_text(size, seed);
    const auto slices = encode_object(geometry, object);
    const Layout layout = layout_of(geometry, size);
    for (int round = 0; round < 40; ++round) {
      std::size_t begin = std::uniform_int_distribution<std::size_t>(0, size)(random);
      std::size_t end = std::uniform_int_distribution<std::size_t>(0, size)(random);
      if (begin > end) std::swap(begin, end);
      SliceNumbers lost;
      lost.insert(static_cast<std::size_t>(round) % 6);
      lost.insert(static_cast<std::size_t>(round) / 6 % 6);
      if (round % 3 == 0) lost = {};
      INFO(size << " bytes, " << begin << " to " << end << ", lost " << std::hex << lost.bits());
      REQUIRE(decode_object(layout, slices, SliceNumbers::first(6) - lost, begin, end) ==
              object.substr(begin, end - begin));
    }
  }
}

TEST_CASE("slices: a range needs only the slices that hold it", "[ec]") {
  const Geometry geometry{4, 2, kBlockBytesMin};
  const std::size_t unit = geometry.unit_bytes();
  const std::string object = random_text(4 * geometry.stripe_bytes(), 3);
  const auto slices = encode_object(geometry, object);
  Decoder decoder(layout_of(geometry, object.size()), kSet, unit + 10, unit + 20);
  CHECK(decoder.wanted() == SliceNumbers{1});
  CHECK_FALSE(decoder.ready());
  CHECK_FALSE(decoder.bytes().has_value());
  REQUIRE(decoder.add(1, block_of(slices[1], decoder.block_range())).has_value());
  REQUIRE(decoder.ready());
  const auto parts = decoder.bytes();
  REQUIRE(parts.has_value());
  REQUIRE(parts->size() == 1);
  std::string got;
  append(got, parts->front());
  CHECK(got == object.substr(unit + 10, 10));
  decoder.next();
  CHECK(decoder.done());
}

TEST_CASE("slices: chunks of any size give the same slices, size and checksum", "[ec]") {
  const Geometry geometry{3, 2, 1024};
  const std::string object = random_text(3 * geometry.stripe_bytes() + 1234, 11);
  const auto slices = encode_object(geometry, object, object.size());
  for (const std::size_t chunk : {1U, 7U, 992U, 993U, 5000U}) {
    INFO("chunks of " << chunk);
    CHECK((encode_object(geometry, object, chunk) == slices));
  }
  auto encoder = Encoder::of(geometry, kSet);
  REQUIRE(encoder.has_value());
  // Straight into the encoder's memory.
  std::size_t at = 0;
  while (at < object.size()) {
    const auto room = encoder->room();
    REQUIRE_FALSE(room.empty());
    const std::size_t count = std::min(room.size(), object.size() - at);
    std::copy_n(bytes_of(object).data() + at, count, room.data());
    encoder->filled(count);
    at += count;
    if (encoder->ready()) static_cast<void>(encoder->take());
  }
  CHECK(encoder->finish().has_value());
  CHECK_FALSE(encoder->finish().has_value());
  CHECK(encoder->object_bytes() == object.size());
  CHECK(encoder->xxh64() == xxh64(object));
}

TEST_CASE("slices: an object of no bytes has no stripe", "[ec]") {
  auto encoder = Encoder::of({4, 2}, kSet);
  REQUIRE(encoder.has_value());
  CHECK_FALSE(encoder->finish().has_value());
  CHECK(encoder->object_bytes() == 0);
  CHECK(encoder->xxh64() == xxh64(std::string_view()));
  CHECK(Decoder(layout_of({4, 2}, 0), kSet, 0, 0).done());
  CHECK(Rebuilder(layout_of({4, 2}, 0), kSet, {0, 5}).done());
}

TEST_CASE("slices: one that fails in the middle is replaced, and nothing starts again", "[ec]") {
  const Geometry geometry{4, 2, kBlockBytesMin};
  const std::string object = random_text(9 * geometry.stripe_bytes() + 100, 13);
  auto slices = encode_object(geometry, object);
  const Layout layout = layout_of(geometry, object.size());
  // Slice 1 has a bad byte in block 2, slice 4 ends in block 5, slice 0 comes back at block 7.
  slices[1] = flip(slices[1], 2 * kBlockBytesMin + 77);
  slices[4].resize(5 * kBlockBytesMin + 9);
  SliceNumbers alive{0, 1, 2, 3, 4, 5};
  std::string got;
  std::vector<std::string> errors;
  for (Decoder decoder(layout, kSet, 0, object.size()); !decoder.done(); decoder.next()) {
    if (decoder.stripe() == 3) alive.erase(0);  // its drive is gone
    if (decoder.stripe() == 7) alive.insert(0);
    while (!decoder.ready()) {
      const auto chosen = slices_to_read(alive, decoder.wanted(), 4);
      REQUIRE(chosen.has_value());
      // Blocks that were added before one failed stay.
      for (const std::size_t slice : *chosen - decoder.have()) {
        const FileRange range = decoder.block_range();
        const auto there =
            bytes_of(slices[slice]).subspan(std::min(range.offset, slices[slice].size()));
        const auto added = decoder.add(slice, there.first(std::min(range.bytes, there.size())));
        if (added) continue;
        CHECK(added.error().code == Errc::corrupt);
        errors.push_back(added.error().message);
        alive.erase(slice);
        if (slice == 4) alive.insert(1);  // only one block of it was bad
      }
    }
    const auto parts = decoder.bytes();
    REQUIRE(parts.has_value());
    for (const auto& part : *parts) append(got, part);
  }
  CHECK((got == object));
  CHECK(errors == std::vector<std::string>{"block 2 of slice 1: checksum is wrong",
                                           "block 5 of slice 4 ends after 9 bytes instead of 512"});
}

TEST_CASE("slices: damaged and misplaced blocks are never decoded", "[ec][safety]") {
  const Geometry geometry{4, 2, kBlockBytesMin};
  const std::string object = random_text(3 * geometry.stripe_bytes(), 17);
  const auto slices = encode_object(geometry, object);
  const auto others = encode_object(geometry, random_text(object.size(), 19), 512, SetId(2));
  const Layout layout = layout_of(geometry, object.size());
  for (std::size_t bad = 0; bad < 6; ++bad) {
    const auto block = [&](const std::string& slice, std::size_t number) {
      return slice.substr(number * kBlockBytesMin, kBlockBytesMin);
    };
    const std::vector<std::pair<std::string, std::string>> damages{
        {"a flipped bit", flip(block(slices[bad], 1), 100)},
        {"zeros", std::string(kBlockBytesMin, '\0')},
        {"the block before", block(slices[bad], 0)},
        {"another slice's", block(slices[(bad + 1) % 6], 1)},
        {"another version's", block(others[bad], 1)}};
    for (const auto& [what, damage] : damages) {
      auto broken = slices;
      broken[bad].replace(kBlockBytesMin, kBlockBytesMin, damage);
      // Data slices that are bad, or data that would be computed from them.
      SliceNumbers alive = SliceNumbers::first(6);
      if (bad >= 4) alive.erase(0);
      if (bad == 5) alive.erase(1);
      INFO(what << " in slice " << bad);
      const std::string got = decode_object(layout, broken, alive, 0, object.size());
      CHECK(got.size() < 200);  // an error's text
      CHECK(got.find(fmt::format("lock 1 of slice {}", bad)) != std::string::npos);
      Rebuilder rebuilder(layout, kSet, SliceNumbers{bad == 0 ? 1U : 0U});
      rebuilder.next();
      CHECK_FALSE(rebuilder.add(bad, block_of(broken[bad], rebuilder.block_range())).has_value());
      CHECK(rebuilder.have().empty());
    }
  }
}

TEST_CASE("slices: a rebuild goes on where it was", "[ec]") {
  const Geometry geometry{3, 2, kBlockBytesMin};
  const std::string object = random_text(4 * geometry.stripe_bytes() + 5, 23);
  const auto slices = encode_object(geometry, object);
  const Layout layout = layout_of(geometry, object.size());
  std::string rest;
  for (Rebuilder rebuilder(layout, kSet, {1}, 2); !rebuilder.done(); rebuilder.next()) {
    CHECK_FALSE(rebuilder.ready());
    for (const std::size_t slice : {0U, 2U, 4U})
      REQUIRE(rebuilder.add(slice, block_of(slices[slice], rebuilder.block_range())).has_value());
    const auto blocks = rebuilder.blocks();
    REQUIRE(blocks.has_value());
    append(rest, blocks->front());
  }
  CHECK(rest == slices[1].substr(layout.block_offset(2)));
}

TEST_CASE("slices: an object under way holds one stripe, and a reader the missing units", "[ec]") {
  const Geometry geometry{8, 2};
  const std::size_t before = PooledBuffer::bytes_in_use();
  auto encoder = Encoder::of(geometry, kSet);
  REQUIRE(encoder.has_value());
  CHECK(PooledBuffer::bytes_in_use() == before);
  const std::string chunk = random_text(200'000, 29);
  std::size_t most = 0;
  for (int i = 0; i < 50; ++i) {
    for (std::size_t at = 0; at < chunk.size();) {
      at += encoder->write(bytes_of(chunk).subspan(at));
      most = std::max(most, PooledBuffer::bytes_in_use() - before);
      if (encoder->ready()) static_cast<void>(encoder->take());
    }
  }
  CHECK(encoder->finish().has_value());
  CHECK(most == 3 * PooledBuffer::kSmallBytes);  // 10 blocks
  CHECK(PooledBuffer::bytes_in_use() == before);

  const std::string object = random_text(geometry.stripe_bytes() * 2, 31);
  const auto slices = encode_object(geometry, object);
  const Layout layout = layout_of(geometry, object.size());
  for (const SliceNumbers lost : {SliceNumbers{}, SliceNumbers{9}, SliceNumbers{0, 1}}) {
    Decoder decoder(layout, kSet, 0, object.size());
    const auto chosen = slices_to_read(SliceNumbers::first(10) - lost, decoder.wanted(), 8);
    REQUIRE(chosen.has_value());
    for (const std::size_t slice : *chosen)
      REQUIRE(decoder.add(slice, block_of(slices[slice], decoder.block_range())).has_value());
    REQUIRE(decoder.bytes().has_value());
    const bool computed = lost.contains(0);
    CHECK(PooledBuffer::bytes_in_use() - before == (computed ? PooledBuffer::kSmallBytes : 0));
  }
}

}  // namespace ec_stream_test
