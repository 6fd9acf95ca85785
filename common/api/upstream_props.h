#pragma once

#include <cstdint>
#include <string>

#include "common/api/bucket.h"
#include "common/api/bucket_props.h"
#include "common/base/error.h"

namespace tarn::api {

/// How to speak to an upstream server.
enum class UpstreamKind : std::uint8_t {
  s3,  ///< provider "aws": AWS, or any server that speaks S3
  web  ///< provider "ht": files below a URL of a web server
};

/// Where the objects of a bucket come from (docs/decisions/021).
struct UpstreamProps {
  UpstreamKind kind = UpstreamKind::s3;
  std::string url;      ///< http(s); of S3 empty for AWS itself
  std::string region;   ///< of S3: empty for the default
  std::string profile;  ///< of S3: whose credentials; empty for the default

  bool operator==(const UpstreamProps&) const = default;
};

/// True for a bucket whose objects come from upstream, and can be fetched again.
[[nodiscard]] bool has_upstream(const Bucket& bucket);
/// Where they come from. Only for a bucket that has_upstream() and passed check_upstream().
[[nodiscard]] UpstreamProps upstream_of(const Bucket& bucket, const BucketProps& props);

/// Check of a stored object with upstream before it is served.
enum class Freshness : std::uint8_t {
  never,        ///< served without asking
  changed,      ///< another version there is fetched
  changed_gone  ///< the same, and an object that is gone there is evicted
};
/// The properties versioning.validate_warm_get and versioning.synchronize.
[[nodiscard]] Freshness freshness_of(const BucketProps& props);

/// invalid_argument, naming the property, when a bucket of this name cannot have these: a web
/// server without URL, an upstream without a provider that has one, more than one copy of what can
/// be fetched again. unsupported for providers of later work.
[[nodiscard]] Status check_upstream(const Bucket& bucket, const BucketProps& props);
/// invalid_argument when a change would have objects of two servers in one bucket.
[[nodiscard]] Status check_other_upstream(const Bucket& bucket, const BucketProps& before,
                                          const BucketProps& after);

}  // namespace tarn::api
