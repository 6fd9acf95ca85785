#pragma once

#include <string>
#include <string_view>

#include "common/base/error.h"

namespace tarn::cli {

/// Where something lies in a cluster, as people write it: "bucket", "bucket/object",
/// "tarn://bucket/object", "ais://bucket/object".
struct Place {
  std::string bucket;
  std::string object;  ///< or a prefix; empty when only the bucket was named

  [[nodiscard]] std::string display() const;  ///< "bucket/object"
};

/// invalid_argument for a bucket name that cannot be; unsupported for s3:// and other schemes. The
/// object is not checked.
[[nodiscard]] Result<Place> parse_place(std::string_view text);
/// A place with an object whose name can be.
[[nodiscard]] Result<Place> parse_object(std::string_view text);
/// A bucket and nothing behind it.
[[nodiscard]] Result<std::string> parse_bucket(std::string_view text);

}  // namespace tarn::cli
