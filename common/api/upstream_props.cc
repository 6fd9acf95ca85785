#include "common/api/upstream_props.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "common/base/settings.h"

namespace tarn::api {
namespace {

/// A provider with an upstream, and the properties of its own; "" where it has none.
struct KindRow {
  std::string_view provider;
  UpstreamKind kind;
  const char* server;
  const char* region;
  const char* profile;
};
constexpr std::array kKinds{
    KindRow{"aws", UpstreamKind::s3, "extra.aws.endpoint", "extra.aws.cloud_region",
            "extra.aws.profile"},
    KindRow{"gcp", UpstreamKind::gcs, "extra.gcp.endpoint", "", "extra.gcp.profile"},
    KindRow{"azure", UpstreamKind::azure, "extra.azure.endpoint", "", ""},
    KindRow{"ht", UpstreamKind::web, "extra.http.url", "", ""}};
constexpr const char* kValidate = "versioning.validate_warm_get";
constexpr const char* kSynchronize = "versioning.synchronize";
constexpr const char* kInterval = "versioning.validate_interval";
constexpr const char* kColdRange = "cold_range";
constexpr const char* kRateEnabled = "rate_limit.backend.enabled";
constexpr const char* kBandwidth = "rate_limit.backend.max_bandwidth";

/// A property that is a string; "" when it has its default.
std::string text_at(const BucketProps& props, const char* path) {
  const auto found = props.others.find(path);
  if (found == props.others.end()) return "";
  const auto value = nlohmann::json::parse(found->second, nullptr, false);
  return value.is_string() ? value.get<std::string>() : "";
}

const KindRow* row_of(const Bucket& bucket) {
  const auto row = std::find_if(kKinds.begin(), kKinds.end(), [&](const KindRow& each) {
    return each.provider == bucket.provider;
  });
  return row == kKinds.end() ? nullptr : &*row;
}

const KindRow& row_of(UpstreamKind kind) {
  return *std::find_if(kKinds.begin(), kKinds.end(),
                       [&](const KindRow& each) { return each.kind == kind; });
}

Status check_url(const char* path, const std::string& text) {
  const bool is_url = text.starts_with("http://") || text.starts_with("https://");
  if (is_url && text.find_first_of(" ?#@") == std::string::npos) return {};
  return fail(Errc::invalid_argument,
              "bucket property '{}' cannot be \"{}\": a URL such as http://host:9000 without query "
              "and user name is allowed",
              path, text);
}

Status check_region(const char* path, const std::string& text) {
  if (is_region(text)) return {};
  return fail(Errc::invalid_argument,
              "bucket property '{}' cannot be \"{}\": a region such as \"us-east-1\" is allowed",
              path, text);
}

Status check_not_set(const Bucket& bucket, const BucketProps& props, const char* path) {
  if (text_at(props, path).empty()) return {};
  return fail(Errc::invalid_argument, "bucket property '{}' has no meaning for {}", path,
              bucket.display());
}

}  // namespace

std::optional<UpstreamKind> upstream_kind(const Bucket& bucket) {
  const KindRow* row = row_of(bucket);
  if (row == nullptr) return std::nullopt;
  return row->kind;
}

std::string_view provider_of(UpstreamKind kind) { return row_of(kind).provider; }

bool is_region(std::string_view text) {
  constexpr std::size_t kHostPartMax = 63;
  return text.size() <= kHostPartMax && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

bool has_upstream(const Bucket& bucket) { return row_of(bucket) != nullptr; }

bool is_found_by_name(const Bucket& bucket) {
  const KindRow* row = row_of(bucket);
  return row != nullptr && row->kind != UpstreamKind::web && bucket.ns_uuid.empty() &&
         bucket.ns_name.empty();
}

nlohmann::json server_props(UpstreamKind kind, std::string_view url) {
  const std::string_view path = row_of(kind).server;
  const auto first = path.find('.');
  const auto last = path.rfind('.');
  const std::string group(path.substr(first + 1, last - first - 1));
  const std::string key(path.substr(last + 1));
  return {{"extra", {{group, {{key, url}}}}}};
}

UpstreamProps upstream_of(const Bucket& bucket, const BucketProps& props) {
  const KindRow* row = row_of(bucket);
  if (row == nullptr) return {};
  return {row->kind, text_at(props, row->server), text_at(props, row->region),
          text_at(props, row->profile), backend_rate_of(props).value_or(BackendRate())};
}

Freshness freshness_of(const BucketProps& props) {
  if (props.others.contains(kSynchronize)) return Freshness::changed_gone;
  return props.others.contains(kValidate) ? Freshness::changed : Freshness::never;
}

std::chrono::milliseconds validate_interval(const BucketProps& props) {
  // An impossible value cannot be stored; one of a newer version reads as the default.
  return parse_duration(text_at(props, kInterval)).value_or(std::chrono::milliseconds(0));
}

ColdRange cold_range_of(const BucketProps& props) {
  const std::string rule = text_at(props, kColdRange);
  if (rule == "pass") return ColdRange::pass;
  return rule == "fill" ? ColdRange::fill : ColdRange::automatic;
}

Status check_upstream(const Bucket& bucket, const BucketProps& props) {
  const KindRow* own = row_of(bucket);
  for (const KindRow& row : kKinds)
    for (const char* path : {row.server, row.region, row.profile})
      if (&row != own && *path != '\0') TRY_OK(check_not_set(bucket, props, path));
  for (const char* path :
       {kValidate, kSynchronize, kInterval, kColdRange, kRateEnabled, kBandwidth})
    if (bucket.provider == "ais" && props.others.contains(path))
      return fail(Errc::invalid_argument,
                  "bucket property '{}' cannot be {} for {}: it has nothing upstream", path,
                  props.others.at(path), bucket.display());
  TRY_OK(backend_rate_of(props));
  if (bucket.provider == "ais") return {};
  if (own == nullptr)
    return fail(Errc::unsupported, "bucket \"{}\": buckets of this provider belong to later work",
                bucket.display());
  const UpstreamProps upstream = upstream_of(bucket, props);
  if (own->kind == UpstreamKind::web && upstream.url.empty())
    return fail(Errc::invalid_argument,
                "bucket \"{}\" needs the property '{}': the URL that its objects lie below",
                bucket.display(), own->server);
  if (!upstream.url.empty()) TRY_OK(check_url(own->server, upstream.url));
  TRY_OK(check_region(own->region, upstream.region));
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
