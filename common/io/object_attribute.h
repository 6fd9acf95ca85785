#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/api/bucket.h"
#include "common/base/error.h"
#include "common/base/ids.h"

namespace tarn::io {

/// Where a data file lies below a drive: data/<directory, 8 hex>/<id, 16 hex>. Opaque: nothing of
/// the object's name is in it.
struct FileName {
  std::uint32_t directory = 0;
  std::uint64_t id = 0;

  auto operator<=>(const FileName&) const = default;
  /// "data/0000002a/00c0ffee00c0ffee"
  [[nodiscard]] std::string path() const;
  [[nodiscard]] std::string directory_path() const;
};

/// What the index keeps of an object, and (with its names) what the file itself says.
struct ObjectRecord {
  enum class Kind : std::uint8_t { object = 1, tombstone = 2 };
  Kind kind = Kind::object;
  Generation generation;
  FileName file;                                            ///< objects only
  std::uint64_t size = 0;                                   ///< bytes
  std::uint64_t xxh64 = 0;                                  ///< of the content
  std::uint64_t version = 1;                                ///< AIStore's, 1 for a new object
  std::int64_t modified_ns = 0;                             ///< wall clock; for people
  std::vector<std::pair<std::string, std::string>> custom;  ///< custom metadata and Content-Type

  bool operator==(const ObjectRecord&) const = default;
  /// Quoted: `"<xxh64>-<size>"`, the same on every copy.
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
