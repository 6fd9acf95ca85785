#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/api/backend_rate.h"
#include "common/api/bucket.h"
#include "common/api/bucket_props.h"
#include "common/base/error.h"

namespace tarn::api {

/// Protocol of an upstream server.
enum class UpstreamKind : std::uint8_t {
  s3,     ///< provider "aws": AWS, or any server that speaks S3
  gcs,    ///< provider "gcp": Google Cloud Storage, by its XML API
  azure,  ///< provider "azure": Azure's Blob service
  web     ///< provider "ht": files below a URL of a web server
};

/// Source of the objects of a bucket (docs/decisions/021).
struct UpstreamProps {
  UpstreamKind kind = UpstreamKind::s3;
  std::string url;      ///< http(s); empty: the server that targets were started with
  std::string region;   ///< of S3: empty for the default
  std::string profile;  ///< of S3 and Google: name of the credentials; empty for the default
  BackendRate rate = {};

  bool operator==(const UpstreamProps&) const = default;
};

/// The kind of server that a bucket of this provider has upstream; none for a bucket that has no
/// upstream.
[[nodiscard]] std::optional<UpstreamKind> upstream_kind(const Bucket& bucket);
/// The provider of buckets of this kind, "aws".
[[nodiscard]] std::string_view provider_of(UpstreamKind kind);
/// True for a bucket whose objects come from upstream, and can be fetched again.
[[nodiscard]] bool has_upstream(const Bucket& bucket);
/// True for a bucket that can be found upstream by its name alone, and so becomes known by its
/// first use. A web server's needs its URL.
[[nodiscard]] bool is_found_by_name(const Bucket& bucket);
/// True for a text that may be a region of S3: it becomes part of a host name.
[[nodiscard]] bool is_region(std::string_view text);
/// Properties that name the server: {"extra":{"aws":{"endpoint":URL}}}, as with_changes() takes
/// them.
[[nodiscard]] nlohmann::json server_props(UpstreamKind kind, std::string_view url);
/// Source of the objects. Only for a bucket that has_upstream() and passed check_upstream().
[[nodiscard]] UpstreamProps upstream_of(const Bucket& bucket, const BucketProps& props);

/// Check of a stored object with upstream before it is served.
enum class Freshness : std::uint8_t {
  never,        ///< served without asking
  changed,      ///< another version there is fetched
  changed_gone  ///< the same, and an object that is gone there is evicted
};
/// The properties versioning.validate_warm_get and versioning.synchronize.
[[nodiscard]] Freshness freshness_of(const BucketProps& props);
/// The property versioning.validate_interval: for so long after a check an object is served without
/// another one. 0: each read checks.
[[nodiscard]] std::chrono::milliseconds validate_interval(const BucketProps& props);

/// Effect of parts (Range) of an object that is not stored.
enum class ColdRange : std::uint8_t {
  automatic,  ///< the second one within a minute has the whole fetched if the object is below 1
              ///< GiB, or if it begins where another part ended
  pass,       ///< parts alone never have the whole fetched
  fill        ///< the second one within a minute does, of an object of any size
};
/// The property cold_range.
[[nodiscard]] ColdRange cold_range_of(const BucketProps& props);

/// invalid_argument, naming the property, when a bucket of this name cannot have these: a web
/// server without URL, an upstream without a provider that has one. unsupported for providers of
/// later work.
[[nodiscard]] Status check_upstream(const Bucket& bucket, const BucketProps& props);
/// invalid_argument when a change would have objects of two servers in one bucket.
[[nodiscard]] Status check_other_upstream(const Bucket& bucket, const BucketProps& before,
                                          const BucketProps& after);

}  // namespace tarn::api
