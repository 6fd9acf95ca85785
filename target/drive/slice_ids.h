#pragma once

#include <cstdint>

#include "common/io/object_attribute.h"
#include "ec/slice_format.h"
#include "target/drive/index.h"

namespace tarn::target {

// Records keep plain numbers of slices (common/io does not know ec/): here they become what ec/
// calls them, and back. Pure. Records were checked when they were read.

template <class CodingOrSlice>
[[nodiscard]] ec::Geometry geometry_of(const CodingOrSlice& from) {
  return {from.k, from.m, from.block_bytes};
}

/// The id of a slice, not of a full copy.
[[nodiscard]] inline ec::SliceId slice_id_of(const io::Slice& slice) {
  return {ec::SetId(slice.set), geometry_of(slice), slice.index};
}

/// The slice `id` of an object that was written under `written`; `file_bytes`: blocks and label.
[[nodiscard]] inline io::Slice slice_of(const ec::SliceId& id, std::uint64_t file_bytes,
                                        const Generation& written) {
  io::Slice slice;
  slice.set = ec::raw(id.set);
  slice.k = static_cast<std::uint8_t>(id.geometry.k);
  slice.m = static_cast<std::uint8_t>(id.geometry.m);
  slice.index = static_cast<std::uint8_t>(id.index);
  slice.block_bytes = static_cast<std::uint32_t>(id.geometry.block_bytes);
  slice.file_bytes = file_bytes;
  slice.written = written;
  return slice;
}

/// The key by which the index has what `attribute`, which is of kind slice, describes.
[[nodiscard]] inline SliceKey key_of(const io::ObjectAttribute& attribute) {
  return {attribute.bucket_id, attribute.name, attribute.record.slice->set,
          attribute.record.slice->index};
}

[[nodiscard]] inline bool same_set(const SliceKey& a, const SliceKey& b) {
  return a.set == b.set && a.bucket == b.bucket && a.name == b.name;
}

}  // namespace tarn::target
