#include "ec/layout.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"

namespace tarn::ec {

std::size_t Geometry::short_unit_bytes(std::size_t rest) const {
  const std::size_t even = (rest + k - 1) / k;
  return std::min((even + kUnitAlignment - 1) / kUnitAlignment * kUnitAlignment, unit_bytes());
}

Status check(const Geometry& geometry) {
  const auto& [k, m, block] = geometry;
  if (k < 1 || m < 1 || k > kSlicesMax || m > kSlicesMax || k + m > kSlicesMax)
    return fail(Errc::invalid_argument,
                "{} data and {} parity slices: want at least one of each, and {} together at most",
                k, m, kSlicesMax);
  if (block < kBlockBytesMin || block > kBlockBytes || !std::has_single_bit(block))
    return fail(Errc::invalid_argument, "blocks of {} bytes: want a power of two from {} to {}",
                block, kBlockBytesMin, kBlockBytes);
  return {};
}

Result<Layout> Layout::of(const Geometry& geometry, std::uint64_t object_bytes) {
  TRY_OK(check(geometry));
  if (object_bytes > kObjectBytesMax)
    return fail(Errc::invalid_argument, "an object of {} bytes is too large", object_bytes);
  return Layout(geometry, object_bytes);
}

Layout::Layout(const Geometry& geometry, std::uint64_t object_bytes)
    : geometry_(geometry),
      object_bytes_(object_bytes),
      whole_stripes_(object_bytes / geometry.stripe_bytes()) {
  const auto rest = static_cast<std::size_t>(object_bytes % geometry.stripe_bytes());
  if (rest > 0) short_unit_ = geometry.short_unit_bytes(rest);
}

std::uint64_t Layout::stripes() const { return whole_stripes_ + (short_unit_ > 0 ? 1 : 0); }
std::uint64_t Layout::blocks_bytes() const { return block_offset(stripes()); }

std::size_t Layout::unit_bytes(std::uint64_t stripe) const {
  return stripe < whole_stripes_ ? geometry_.unit_bytes() : short_unit_;
}

std::size_t Layout::block_bytes(std::uint64_t stripe) const {
  return unit_bytes(stripe) + kFooterBytes;
}

std::uint64_t Layout::block_offset(std::uint64_t stripe) const {
  if (stripe <= whole_stripes_) return stripe * geometry_.block_bytes;
  return whole_stripes_ * geometry_.block_bytes + short_unit_ + kFooterBytes;
}

std::uint64_t Layout::stripe_begin(std::uint64_t stripe) const {
  return std::min(stripe * geometry_.stripe_bytes(), object_bytes_);
}

std::uint64_t Layout::stripe_end(std::uint64_t stripe) const { return stripe_begin(stripe + 1); }

Stripes Layout::stripes_of(std::uint64_t begin, std::uint64_t end) const {
  TARN_CHECK(begin <= end && end <= object_bytes_);
  if (begin == end) return {};
  const std::uint64_t first = begin / geometry_.stripe_bytes();
  return {first, (end - 1) / geometry_.stripe_bytes() - first + 1};
}

FileRange Layout::file_range(Stripes blocks) const {
  const std::uint64_t begin = block_offset(blocks.first);
  return {begin, block_offset(blocks.first + blocks.count) - begin};
}

Part Layout::part_of(std::uint64_t stripe, std::size_t slice, std::uint64_t begin,
                     std::uint64_t end) const {
  if (stripe >= stripes()) return {};
  const std::size_t unit = unit_bytes(stripe);
  const std::uint64_t unit_begin = stripe_begin(stripe) + slice * unit;
  const std::uint64_t from = std::max(begin, unit_begin);
  const std::uint64_t to = std::min({end, unit_begin + unit, stripe_end(stripe)});
  if (from >= to) return {};
  return {static_cast<std::size_t>(from - unit_begin), static_cast<std::size_t>(to - from)};
}

SliceNumbers Layout::slices_of(std::uint64_t stripe, std::uint64_t begin, std::uint64_t end) const {
  SliceNumbers slices;
  for (std::size_t slice = 0; slice < geometry_.k; ++slice)
    if (part_of(stripe, slice, begin, end).bytes > 0) slices.insert(slice);
  return slices;
}

}  // namespace tarn::ec
