#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/error.h"
#include "ec/slice_numbers.h"

namespace tarn::ec {

/// Size of the footer at the end of every block (slice_format.h).
inline constexpr std::size_t kFooterBytes = 32;
/// Size of a whole block, with its footer. docs/decisions/018-slices.md has the reason.
inline constexpr std::size_t kBlockBytes = 64UL * 1024;
/// The smallest block that the format knows (tests use it).
inline constexpr std::size_t kBlockBytesMin = 512;
/// Multiple to which the units of a short stripe are rounded up.
inline constexpr std::size_t kUnitAlignment = 64;
/// No object is larger; so no sum of offsets overflows.
inline constexpr std::uint64_t kObjectBytesMax = std::uint64_t{1} << 56;

/// The way in which objects are cut: the same for all objects of a bucket that were written under
/// one setting.
struct Geometry {
  std::size_t k = 0;
  std::size_t m = 0;
  std::size_t block_bytes = kBlockBytes;

  bool operator==(const Geometry&) const = default;
  [[nodiscard]] std::size_t slices() const { return k + m; }
  /// Bytes of the object in a whole block.
  [[nodiscard]] std::size_t unit_bytes() const { return block_bytes - kFooterBytes; }
  /// Bytes of the object in a whole stripe.
  [[nodiscard]] std::size_t stripe_bytes() const { return k * unit_bytes(); }
  /// Size of the blocks of a last stripe that holds `rest` bytes of the object, 0 < rest <
  /// stripe_bytes().
  [[nodiscard]] std::size_t short_unit_bytes(std::size_t rest) const;
};

/// invalid_argument unless k, m >= 1, k + m <= 32 and blocks are a power of two from 512 bytes to
/// 64 KiB.
[[nodiscard]] Status check(const Geometry& geometry);

/// Some stripes in a row; also the blocks of these stripes in one slice.
struct Stripes {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  bool operator==(const Stripes&) const = default;
};

/// Some bytes of a file.
struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  bool operator==(const FileRange&) const = default;
};

/// Some bytes of one unit.
struct Part {
  std::size_t offset = 0;
  std::size_t bytes = 0;

  bool operator==(const Part&) const = default;
};

/// Places of the bytes of one object in its slices. The object is a row of stripes; a stripe is k
/// units in a row, one in each data slice; so a slice holds every k-th unit. All stripes are whole
/// but perhaps the last, whose units are as short as they can be, and padded with zeros. Ranges are
/// [begin, end) with end <= object_bytes(). Arithmetic alone.
class Layout {
 public:
  /// invalid_argument for a geometry that there is none of, or an object above 2^56 bytes.
  [[nodiscard]] static Result<Layout> of(const Geometry& geometry, std::uint64_t object_bytes);

  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] std::uint64_t object_bytes() const { return object_bytes_; }
  [[nodiscard]] std::uint64_t stripes() const;
  /// Bytes of all blocks of one slice: the begin of its label.
  [[nodiscard]] std::uint64_t blocks_bytes() const;

  /// Sizes of one stripe: bytes of each of its units (padding included) and of each block (its
  /// footer included). Offset of its blocks in every slice, and the range of the object that it
  /// holds.
  [[nodiscard]] std::size_t unit_bytes(std::uint64_t stripe) const;
  [[nodiscard]] std::size_t block_bytes(std::uint64_t stripe) const;
  [[nodiscard]] std::uint64_t block_offset(std::uint64_t stripe) const;
  [[nodiscard]] std::uint64_t stripe_begin(std::uint64_t stripe) const;
  [[nodiscard]] std::uint64_t stripe_end(std::uint64_t stripe) const;

  /// The stripes that hold a range.
  [[nodiscard]] Stripes stripes_of(std::uint64_t begin, std::uint64_t end) const;
  /// Place of these blocks in a slice's file.
  [[nodiscard]] FileRange file_range(Stripes blocks) const;
  /// The part of a data slice's unit in a stripe that belongs to a range; 0 bytes when none does.
  [[nodiscard]] Part part_of(std::uint64_t stripe, std::size_t slice, std::uint64_t begin,
                             std::uint64_t end) const;
  /// The data slices of which part_of() is not empty.
  [[nodiscard]] SliceNumbers slices_of(std::uint64_t stripe, std::uint64_t begin,
                                       std::uint64_t end) const;

 private:
  Layout(const Geometry& geometry, std::uint64_t object_bytes);

  Geometry geometry_;
  std::uint64_t object_bytes_;
  std::uint64_t whole_stripes_;
  std::size_t short_unit_ = 0;  // 0: no short stripe
};

}  // namespace tarn::ec
