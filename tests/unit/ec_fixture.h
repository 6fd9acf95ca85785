#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "ec/decoder.h"
#include "ec/encoder.h"
#include "tests/unit/seed.h"

/// Objects as strings, and their slices as strings, for the tests of ec/.
namespace tarn::ec::testing {

// With a sanitizer the exhaustive tests would take minutes: there they go as far as this.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr std::size_t kExhaustiveMax = 8;
#else
inline constexpr std::size_t kExhaustiveMax = 16;
#endif
#endif

inline constexpr SetId kSet{0x1122334455667788};

inline std::string random_text(std::size_t bytes, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  std::string text(bytes, '\0');
  for (char& letter : text) letter = static_cast<char>(random());
  return text;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline void append(std::string& text, std::span<const std::byte> bytes) {
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// Calls `each` with every set of `count` of the slices 0 to n-1.
inline void for_each_set(std::size_t n, std::size_t count,
                         const std::function<void(SliceNumbers)>& each) {
  for (std::uint32_t bits = 0; bits < std::uint32_t{1} << n; ++bits)
    if (const SliceNumbers set(bits); set.size() == count) each(set);
}

/// Of telling_sizes() the first: those around nothing, and around a byte in each data slice.
inline constexpr std::size_t kBoundarySizes = 5;

/// The sizes around which something could be wrong.
inline std::vector<std::size_t> telling_sizes(const Geometry& geometry) {
  const std::size_t unit = geometry.unit_bytes();
  const std::size_t stripe = geometry.stripe_bytes();
  std::vector<std::size_t> sizes{0, 1, geometry.k - 1, geometry.k, geometry.k + 1};
  for (const std::size_t border : {geometry.k * kUnitAlignment, unit, stripe, 2 * stripe})
    for (const std::size_t size : {border - 1, border, border + 1}) sizes.push_back(size);
  sizes.push_back(stripe + unit + 17);
  sizes.push_back(stripe - unit + 3);
  return sizes;
}

/// The blocks of each slice, one after the other, of an object that comes in chunks of `chunk`.
inline std::vector<std::string> encode_object(const Geometry& geometry, std::string_view object,
                                              std::size_t chunk = 100'000, SetId set = kSet) {
  auto encoder = Encoder::of(geometry, set, false);
  REQUIRE(encoder.has_value());
  std::vector<std::string> slices(geometry.slices());
  const auto keep = [&](const Stripe& stripe) {
    for (std::size_t i = 0; i < slices.size(); ++i) append(slices[i], stripe.block(i));
  };
  while (!object.empty()) {
    const std::size_t taken = encoder->write(bytes_of(object.substr(0, chunk)));
    object.remove_prefix(taken);
    if (encoder->ready()) keep(encoder->take());
  }
  if (const auto last = encoder->finish()) keep(*last);
  return slices;
}

inline std::span<const std::byte> block_of(const std::string& slice, const FileRange& range) {
  return bytes_of(slice).subspan(range.offset, range.bytes);
}

inline Layout layout_of(const Geometry& geometry, std::uint64_t object_bytes) {
  const auto layout = Layout::of(geometry, object_bytes);
  REQUIRE(layout.has_value());
  return *layout;
}

/// Bytes [begin, end) from those slices that are `alive`; an error's text when they cannot be read.
inline std::string decode_object(const Layout& layout, const std::vector<std::string>& slices,
                                 SliceNumbers alive, std::uint64_t begin, std::uint64_t end) {
  std::string object;
  for (Decoder decoder(layout, kSet, begin, end); !decoder.done(); decoder.next()) {
    const auto chosen = slices_to_read(alive, decoder.wanted(), layout.geometry().k);
    if (!chosen) return chosen.error().message;
    for (const std::size_t slice : *chosen) {
      const auto added = decoder.add(slice, block_of(slices[slice], decoder.block_range()));
      if (!added) return added.error().message;
    }
    const auto parts = decoder.bytes();
    if (!parts) return parts.error().message;
    for (const auto& part : *parts) append(object, part);
  }
  return object;
}

}  // namespace tarn::ec::testing
