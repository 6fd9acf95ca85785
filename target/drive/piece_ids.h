#pragma once

#include <cstdint>

#include "common/io/object_attribute.h"
#include "ec/slice_format.h"
#include "target/drive/index.h"

namespace tarn::target {

// Records keep plain numbers of slices (common/io does not know ec/): here they become what ec/
// calls them, and back. Pure. Records were checked when they were read.

template <class CodingOrPiece>
[[nodiscard]] ec::Geometry geometry_of(const CodingOrPiece& from) {
  return {from.k, from.m, from.block_bytes};
}

/// Of a slice, not of a whole.
[[nodiscard]] inline ec::SliceId slice_of(const io::Piece& piece) {
  return {ec::SetId(piece.set), geometry_of(piece), piece.index};
}

/// The slice `slice` of an object that was written under `written`; `file_bytes`: blocks and label.
[[nodiscard]] inline io::Piece piece_of(const ec::SliceId& slice, std::uint64_t file_bytes,
                                        const Generation& written) {
  io::Piece piece;
  piece.set = ec::raw(slice.set);
  piece.k = static_cast<std::uint8_t>(slice.geometry.k);
  piece.m = static_cast<std::uint8_t>(slice.geometry.m);
  piece.index = static_cast<std::uint8_t>(slice.index);
  piece.block_bytes = static_cast<std::uint32_t>(slice.geometry.block_bytes);
  piece.file_bytes = file_bytes;
  piece.written = written;
  return piece;
}

/// Where the index has what `attribute`, which is of kind slice, speaks of.
[[nodiscard]] inline PieceKey key_of(const io::ObjectAttribute& attribute) {
  return {attribute.bucket_id, attribute.name, attribute.record.piece->set,
          attribute.record.piece->index};
}

[[nodiscard]] inline bool same_set(const PieceKey& a, const PieceKey& b) {
  return a.set == b.set && a.bucket == b.bucket && a.name == b.name;
}

}  // namespace tarn::target
