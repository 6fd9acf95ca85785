#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "ec/layout.h"

/// Format of the file of a slice, byte for byte: docs/slice-format.md. Reading is total: the result
/// is a value or `corrupt` with the fault.
namespace tarn::ec {

/// Number that only the k + m slices of one write share: random, drawn when the writing begins,
/// before there is a generation.
enum class SetId : std::uint64_t {};

[[nodiscard]] constexpr std::uint64_t raw(SetId id) { return static_cast<std::uint64_t>(id); }
[[nodiscard]] SetId new_set_id();

/// Set, geometry and index of a slice. A record or an attribute keeps it beside name, generation,
/// size and checksum of the object.
struct SliceId {
  SetId set{};
  Geometry geometry;
  std::size_t index = 0;  ///< below geometry.slices()

  bool operator==(const SliceId&) const = default;
};

/// Completes a block in memory: its last kFooterBytes name its slice, and have a CRC32C of all
/// before. The block is the unit's bytes and room for that; no shorter than kFooterBytes.
void seal_block(std::span<std::byte> block, const SliceId& slice, std::uint64_t stripe);

/// Checks that `block` is the one that seal_block() made for this slice and stripe. Every block
/// from a drive or another node goes through here before it is used. `corrupt` when it was changed,
/// or is another one: of another slice, set or place.
[[nodiscard]] Status check_block(std::span<const std::byte> block, const SliceId& slice,
                                 std::uint64_t stripe);

/// The end of a slice's file: with it the file can be read without index, attribute or cluster. It
/// is written when all is known, so no slice is ever written twice.
struct Label {
  SliceId slice;
  BucketId bucket_id{};
  std::string provider;  ///< the bucket's, as in the attribute user.tarn
  std::string ns_uuid;
  std::string ns_name;
  std::string bucket;
  std::string object;
  Generation generation;  ///< of the write; a change of metadata raises that of the attribute
  std::uint64_t object_bytes = 0;
  std::uint64_t xxh64 = 0;  ///< of the whole object

  bool operator==(const Label&) const = default;
};

/// No label is longer: that much of a file's end is enough to read it.
inline constexpr std::size_t kLabelBytesMax = 4096;

/// Bytes that follow the last block. invalid_argument when names are too long for a label.
[[nodiscard]] Result<std::string> encode(const Label& label);

/// The label of a file of `file_bytes` bytes of which `tail` is the end: kLabelBytesMax bytes or
/// the whole file. `corrupt` when there is none, or the file has another length than its blocks and
/// label together.
[[nodiscard]] Result<Label> read_label(std::span<const std::byte> tail, std::uint64_t file_bytes);

}  // namespace tarn::ec
