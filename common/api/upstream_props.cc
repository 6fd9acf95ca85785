#include "common/api/upstream_props.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

namespace tarn::api {
namespace {

constexpr const char* kEndpoint = "extra.aws.endpoint";
constexpr const char* kRegion = "extra.aws.cloud_region";
constexpr const char* kProfile = "extra.aws.profile";
constexpr const char* kUrl = "extra.http.url";
constexpr std::array kS3Only{kEndpoint, kRegion, kProfile};
constexpr const char* kValidate = "versioning.validate_warm_get";
constexpr const char* kSynchronize = "versioning.synchronize";

/// A property that is a string; "" when it has its default.
std::string text_at(const BucketProps& props, const char* path) {
  const auto found = props.others.find(path);
  if (found == props.others.end()) return "";
  const auto value = nlohmann::json::parse(found->second, nullptr, false);
  return value.is_string() ? value.get<std::string>() : "";
}

Status check_url(const char* path, const std::string& text) {
  const bool is_url = text.starts_with("http://") || text.starts_with("https://");
  if (is_url && text.find_first_of(" ?#@") == std::string::npos) return {};
  return fail(Errc::invalid_argument,
              "bucket property '{}' cannot be \"{}\": a URL such as http://host:9000 without query "
              "and user name is allowed",
              path, text);
}

/// The region becomes part of a host name.
Status check_region(const std::string& text) {
  const bool is_word = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (is_word) return {};
  return fail(Errc::invalid_argument,
              "bucket property '{}' cannot be \"{}\": a region such as \"us-east-1\" is allowed",
              kRegion, text);
}

Status check_not_set(const Bucket& bucket, const BucketProps& props, const char* path) {
  if (text_at(props, path).empty()) return {};
  return fail(Errc::invalid_argument, "bucket property '{}' has no meaning for {}", path,
              bucket.display());
}

}  // namespace

bool has_upstream(const Bucket& bucket) {
  return bucket.provider == "aws" || bucket.provider == "ht";
}

UpstreamProps upstream_of(const Bucket& bucket, const BucketProps& props) {
  if (bucket.provider == "ht") return {UpstreamKind::web, text_at(props, kUrl), "", ""};
  return {UpstreamKind::s3, text_at(props, kEndpoint), text_at(props, kRegion),
          text_at(props, kProfile)};
}

Freshness freshness_of(const BucketProps& props) {
  if (props.others.contains(kSynchronize)) return Freshness::changed_gone;
  return props.others.contains(kValidate) ? Freshness::changed : Freshness::never;
}

Status check_upstream(const Bucket& bucket, const BucketProps& props) {
  const bool is_web = bucket.provider == "ht";
  if (bucket.provider != "aws")
    for (const char* path : kS3Only) TRY_OK(check_not_set(bucket, props, path));
  if (!is_web) TRY_OK(check_not_set(bucket, props, kUrl));
  for (const char* path : {kValidate, kSynchronize})
    if (bucket.provider == "ais" && props.others.contains(path))
      return fail(Errc::invalid_argument,
                  "bucket property '{}' cannot be true for {}: it has nothing upstream", path,
                  bucket.display());
  if (bucket.provider == "ais") return {};
  if (!has_upstream(bucket))
    return fail(Errc::unsupported, "bucket \"{}\": buckets of this provider belong to later work",
                bucket.display());
  const UpstreamProps upstream = upstream_of(bucket, props);
  if (is_web && upstream.url.empty())
    return fail(Errc::invalid_argument,
                "bucket \"{}\" needs the property '{}': the URL that its objects lie below",
                bucket.display(), kUrl);
  if (!upstream.url.empty()) TRY_OK(check_url(is_web ? kUrl : kEndpoint, upstream.url));
  TRY_OK(check_region(upstream.region));
  for (const char* path : {"mirror.enabled", "ec.enabled"})
    if (props.others.contains(path))
      return fail(Errc::invalid_argument,
                  "bucket property '{}' cannot be true for {}: what a drive loses is fetched again "
                  "from upstream",
                  path, bucket.display());
  return {};
}

Status check_other_upstream(const Bucket& bucket, const BucketProps& before,
                            const BucketProps& after) {
  if (!has_upstream(bucket)) return {};
  if (upstream_of(bucket, before).url == upstream_of(bucket, after).url) return {};
  return fail(
      Errc::invalid_argument,
      "bucket \"{}\" has objects of {}: evict the bucket and make it anew for another server",
      bucket.display(), upstream_of(bucket, before).url);
}

}  // namespace tarn::api
