#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/api/bucket.h"
#include "common/base/error.h"
#include "common/base/ids.h"

namespace tarn::io {

/// Place of a data file below a drive: data/<directory, 8 hex>/<id, 16 hex>. Opaque: it does not
/// contain the object's name.
struct FileName {
  std::uint32_t directory = 0;
  std::uint64_t id = 0;

  auto operator<=>(const FileName&) const = default;
  /// "data/0000002a/00c0ffee00c0ffee"
  [[nodiscard]] std::string path() const;
  [[nodiscard]] std::string directory_path() const;
};

/// Form of a coded object (docs/decisions/019-coded-objects.md): k + m slices, and perhaps a full
/// copy. Its file is empty then. Plain numbers: target/drive/slice_ids.h makes ec's types of them.
struct Coding {
  enum class Layout : std::uint8_t {
    striped = 1,  ///< slices only
    whole = 2     ///< slices, and the full copy at the owner
  };
  Layout layout = Layout::striped;
  std::uint8_t k = 0;
  std::uint8_t m = 0;
  std::uint32_t block_bytes = 0;
  std::uint64_t set = 0;             ///< of all slices that were made together
  Generation written;                ///< of the write that made them
  std::vector<std::string> holders;  ///< of slice 0 to k + m - 1: ids of targets; "": none
  std::string full_copy;             ///< the holder of the full copy; "": no target has it

  bool operator==(const Coding&) const = default;
};

/// The full copy is the slice of this number.
inline constexpr std::uint8_t kFullCopy = 255;
/// No object has more slices.
inline constexpr std::size_t kSlicesMax = 32;

/// Slice that a file is, and its set.
struct Slice {
  std::uint64_t set = 0;
  std::uint8_t k = 0;
  std::uint8_t m = 0;
  std::uint8_t index = 0;  ///< below k + m, or kFullCopy
  std::uint32_t block_bytes = 0;
  std::uint64_t file_bytes = 0;  ///< of the whole file, its label included
  Generation written;            ///< of the write that made the set

  bool operator==(const Slice&) const = default;
};

/// corrupt for a value that is no coding: numbers that are no code, or not a holder for each slice.
[[nodiscard]] Status check(const Coding& coding);
/// corrupt for a value that is no slice.
[[nodiscard]] Status check(const Slice& slice);

/// Record of an object or a slice of one in the index, and (with its names) in the file itself.
struct ObjectRecord {
  enum class Kind : std::uint8_t { object = 1, tombstone = 2, slice = 3 };
  Kind kind = Kind::object;
  Generation generation;
  FileName file;                                            ///< not of a tombstone
  std::uint64_t size = 0;                                   ///< bytes
  std::uint64_t xxh64 = 0;                                  ///< of the content
  std::uint64_t version = 1;                                ///< AIStore's, 1 for a new object
  std::int64_t modified_ns = 0;                             ///< wall clock; for people
  std::vector<std::pair<std::string, std::string>> custom;  ///< custom metadata and Content-Type
  std::optional<Coding> coding;  ///< objects only: size and xxh64 are the object's all the same
  /// Kind slice, and always there. `generation` is that of the record for which the slice was
  /// sealed here; size, xxh64 and modified_ns are the object's, version is 0 and custom is empty.
  std::optional<Slice> slice;

  bool operator==(const ObjectRecord&) const = default;
  /// Bytes of its file: none of a coded object.
  [[nodiscard]] std::uint64_t file_bytes() const {
    return slice ? slice->file_bytes : coding ? 0 : size;
  }
  /// Quoted: `"<xxh64>-<size>"`, the same on every copy; of an object that was fetched from
  /// upstream, the entity tag that it has there.
  [[nodiscard]] std::string etag() const;
};

/// The attribute `user.tarn` of a data file: all that is needed to put the object into an index
/// again. docs/on-disk-layout.md has the grammar.
struct ObjectAttribute {
  BucketId bucket_id{};
  api::Bucket bucket;
  std::string name;
  ObjectRecord record;

  bool operator==(const ObjectAttribute&) const = default;
};

inline constexpr const char* kAttributeName = "user.tarn";
/// ext4 with 4 KiB blocks takes about this much; drives are probed for it at the start.
inline constexpr std::size_t kAttributeBytesMax = 4000;

/// The record alone, as an index value. Ends in a CRC32C.
[[nodiscard]] std::string encode(const ObjectRecord& record);
/// corrupt when the checksum or the format is wrong.
[[nodiscard]] Result<ObjectRecord> decode_record(std::string_view bytes);

[[nodiscard]] std::string encode(const ObjectAttribute& attribute);
[[nodiscard]] Result<ObjectAttribute> decode_attribute(std::string_view bytes);

/// Reads the attribute of an open file. not_found when it has none (then it is not an object).
[[nodiscard]] Result<ObjectAttribute> read_attribute(int fd, std::string_view path);

}  // namespace tarn::io
