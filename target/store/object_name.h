#pragma once

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/io/object_attribute.h"

namespace tarn::target {

class Drive;

/// The name of an object as the store needs it: the bucket's id is in the keys, the uname decides
/// the drive.
struct ObjectName {
  BucketId bucket{};
  std::string uname;        ///< input of placement: "ais/@#/photos/cat.jpg"
  std::string object;       ///< "cat.jpg"
  std::uint8_t copies = 0;  ///< BucketProps::copies: 0 for buckets that were never mirrored
  /// True of a bucket with an upstream and one copy of each object: upstream has the newest
  /// version.
  bool is_refetchable = false;

  /// Key for locks: for the same object always the same, and for no other, whatever its bucket is
  /// called.
  [[nodiscard]] std::string key() const { return std::to_string(raw(bucket)) + "/" + object; }
};

/// A bucket as a list of the store needs it; the fields as in ObjectName.
struct BucketOnDrives {
  BucketId id{};
  std::uint8_t copies = 0;
  bool is_refetchable = false;
};

/// A record and the drive that holds it.
struct Located {
  Drive* drive = nullptr;
  io::ObjectRecord record;
};

}  // namespace tarn::target
