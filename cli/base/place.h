#pragma once

#include <string>
#include <string_view>

#include "common/base/error.h"

namespace tarn::cli {

/// Location in a cluster, as people write it: "bucket", "bucket/object", "tarn://bucket/object",
/// "ais://bucket/object", "s3://bucket/object", and so with gs://, az:// and ht://.
struct Place {
  std::string bucket;
  std::string object;  ///< or a prefix; empty when only the bucket was named
  std::string provider = "ais";

  /// "bucket/object", "s3://bucket/object": what parse_place() reads back.
  [[nodiscard]] std::string display() const;
  /// "bucket", "s3://bucket".
  [[nodiscard]] std::string bucket_display() const;
  /// Another object of the same bucket.
  [[nodiscard]] Place with(std::string other) const { return {bucket, std::move(other), provider}; }
  /// As placement and AIStore's `bck_to` name it: "aws/@#/bucket/".
  [[nodiscard]] std::string bucket_uname() const;
  /// Path and query of requests for the bucket, its provider included.
  [[nodiscard]] std::string bucket_target() const;
  /// Path and query of requests for the object. Without a bucket it is "/object": the cluster's
  /// default bucket.
  [[nodiscard]] std::string request_target() const;
};

/// invalid_argument for a bucket name that cannot be; unsupported for schemes other than these. The
/// object is not checked.
[[nodiscard]] Result<Place> parse_place(std::string_view text);
/// A place with an object whose name can be.
[[nodiscard]] Result<Place> parse_object(std::string_view text);
/// A place as a URL names it: "http://host:port/bucket/object", "http://host:port/object" (in the
/// default bucket), or with /v1/objects/, /ais/, /gs/, /az/ or /ht/ before the bucket. Text after
/// the authority is taken as it is, not percent-decoded: it may hold templates.
struct UrlPlace {
  std::string endpoint;  ///< "http://host:port"
  Place place;
};
[[nodiscard]] Result<UrlPlace> parse_url_place(std::string_view url);
/// A bucket and nothing after it.
[[nodiscard]] Result<Place> parse_bucket(std::string_view text);

}  // namespace tarn::cli
