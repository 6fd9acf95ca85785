#include "target/upstream/servers.h"

#include <algorithm>
#include <utility>

#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"

namespace tarn::target {
namespace {

constexpr const char* kDefaultRegion = "us-east-1";
constexpr const char* kGoogleHost = "storage.googleapis.com";
constexpr const char* kGoogleRegion = "auto";

std::string origin_of(const http::Url& url) {
  return fmt::format("{}://{}", url.tls ? "https" : "http", to_lower(url.authority()));
}

Result<http::Url> server_url(std::string_view text) {
  TRY(http::Url url, http::parse_http_or_https(text));
  while (url.path.ends_with('/')) url.path.pop_back();
  return url;
}

/// S3 itself: not the services of other companies that AWS hosts.
bool is_aws_host(const http::Url& url) {
  const std::string host = to_lower(url.host);
  const bool is_s3 = host.starts_with("s3.") || host.starts_with("s3-");
  return url.tls && url.port == 443 && is_s3 &&
         (host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn"));
}

/// True if a name can be a part of a host name for which AWS's certificates hold: buckets of former
/// times have dots, underlines and capitals as well.
bool is_host_part(std::string_view bucket) {
  return std::all_of(bucket.begin(), bucket.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

/// The region in a host of AWS, "s3.eu-west-1.amazonaws.com"; empty where it has none.
std::string region_in(const http::Url& url) {
  const std::string host = to_lower(url.host);
  if (!is_aws_host(url) || !host.starts_with("s3.")) return "";
  const std::size_t begin = host.starts_with("s3.dualstack.") ? 13 : 3;
  const std::string region = host.substr(begin, host.find('.', begin) - begin);
  return region == "amazonaws" ? "" : region;
}

/// AWS's host of a region. A bucket is a part of the host name where it can be, else of the path.
/// Without a bucket: that of the account.
http::Url aws_url(const std::string& bucket, const std::string& region) {
  http::Url url;
  url.tls = true;
  url.port = 443;
  url.path = "";
  url.host = fmt::format("s3.{}.amazonaws.com{}", region, region.starts_with("cn-") ? ".cn" : "");
  if (bucket.empty()) return url;
  if (is_host_part(bucket))
    url.host = bucket + "." + url.host;
  else
    url.path = "/" + bucket;
  return url;
}

/// Google's host for the XML API. A bucket is a part of the path.
http::Url google_url() {
  http::Url url;
  url.tls = true;
  url.port = 443;
  url.host = kGoogleHost;
  return url;
}

bool is_google_host(const http::Url& url) {
  return url.tls && url.port == 443 && iequals(url.host, kGoogleHost);
}

bool is_same_url(std::string_view a, std::string_view b) {
  const auto one = server_url(a);
  const auto other = server_url(b);
  return one && other && origin_of(*one) == origin_of(*other) && one->path == other->path;
}

bool is_own_host(api::UpstreamKind kind, const http::Url& url) {
  switch (kind) {
    case api::UpstreamKind::s3: return is_aws_host(url);
    case api::UpstreamKind::gcs: return is_google_host(url);
    case api::UpstreamKind::azure:  // the account's, which server_of() knows
    case api::UpstreamKind::web: break;
  }
  return false;
}

}  // namespace

std::string UpstreamServer::origin() const { return origin_of(url); }

std::string UpstreamServer::display() const { return origin_of(url) + url.path; }

Status UpstreamServers::list(std::string_view setting, std::string_view urls) {
  while (!urls.empty()) {
    const auto comma = urls.find(',');
    const auto url = server_url(trim(urls.substr(0, comma)));
    if (!url)
      return fail(Errc::invalid_argument,
                  "{}: {}: URLs such as http://host:9000 are wanted, with commas between them",
                  setting, url.error().message);
    listed_.insert(origin_of(*url));
    urls = comma == std::string_view::npos ? std::string_view() : urls.substr(comma + 1);
  }
  return {};
}

Result<UpstreamServers> UpstreamServers::load(std::string_view listed,
                                              const security::Environment& environment,
                                              Clock& clock) {
  UpstreamServers out;
  TRY_OK(out.list("upstream.endpoints", listed));
  for (const auto& [kind, variable] : {std::pair(api::UpstreamKind::s3, "AWS_ENDPOINT_URL"),
                                       std::pair(api::UpstreamKind::gcs, "GCS_ENDPOINT_URL")}) {
    out.endpoints_[kind] = environment(variable).value_or("");
    TRY_OK(out.list(variable, out.endpoints_[kind]));
  }
  out.region_ = environment("AWS_REGION")
                    .value_or(environment("AWS_DEFAULT_REGION").value_or(kDefaultRegion));
  TRY(out.aws_, security::AwsIdentities::load(environment));
  TRY(auto role, role_source(environment, out.region_, out.aws_.find("").value().has_value()));
  if (role) out.role_ = std::make_shared<RoleCredentials>(std::move(*role), clock);
  TRY(out.google_, security::AwsIdentities::load(environment, security::kGoogleNames));
  if (environment("GOOGLE_APPLICATION_CREDENTIALS") && !out.google_.find("").value())
    obs::log("target").warn(
        "GOOGLE_APPLICATION_CREDENTIALS is not used: buckets of gs:// need an HMAC key in {} and "
        "{}",
        security::kGoogleNames.access_key, security::kGoogleNames.secret_key);
  TRY(security::AzureAccount account, security::load_azure_account(environment));
  out.endpoints_[api::UpstreamKind::azure] = std::move(account.endpoint);
  out.azure_ = std::move(account.credentials);
  return out;
}

const security::AwsIdentities& UpstreamServers::identities(api::UpstreamKind kind) const {
  return kind == api::UpstreamKind::gcs ? google_ : aws_;
}

Result<std::optional<security::AwsCredentials>> UpstreamServers::keys_of(
    api::UpstreamKind kind, const std::string& profile) const {
  if (kind != api::UpstreamKind::s3 || !profile.empty() || role_ == nullptr)
    return identities(kind).find(profile);
  TRY(security::AwsCredentials keys, role_->get());
  return std::optional(std::move(keys));
}

bool UpstreamServers::is_configured(api::UpstreamKind kind) const {
  if (!endpoint(kind).empty()) return true;
  if (kind != api::UpstreamKind::s3 && kind != api::UpstreamKind::gcs) return false;
  if (kind == api::UpstreamKind::s3 && role_ != nullptr) return true;
  const auto usual = identities(kind).find("");
  return usual && usual->has_value();
}

std::string UpstreamServers::endpoint(api::UpstreamKind kind) const {
  const auto found = endpoints_.find(kind);
  return found == endpoints_.end() ? "" : found->second;
}

Result<UpstreamServer> UpstreamServers::server_of(const api::Bucket& bucket,
                                                  const api::UpstreamProps& props) const {
  using api::UpstreamKind;
  UpstreamServer out;
  out.kind = props.kind;
  out.bucket = bucket.name;
  out.name = bucket.display();
  out.rate = props.rate;
  if (props.kind == UpstreamKind::s3) out.region = props.region.empty() ? region_ : props.region;
  if (props.kind == UpstreamKind::gcs) out.region = kGoogleRegion;
  if (props.kind == UpstreamKind::s3 || props.kind == UpstreamKind::gcs) {
    TRY(out.credentials, keys_of(props.kind, props.profile));
  }
  const std::string named = props.url.empty() ? endpoint(props.kind) : props.url;
  if (named.empty() && props.kind == UpstreamKind::s3) {
    out.url = aws_url(bucket.name, out.region);
    return out;
  }
  if (named.empty() && props.kind == UpstreamKind::azure)
    return fail(Errc::invalid_argument,
                "bucket \"{}\": this target was started without an account of Azure: set "
                "AZURE_STORAGE_ACCOUNT for it (docs/upstream.md), or name the server in "
                "extra.azure.endpoint",
                bucket.display());
  if (named.empty()) {
    out.url = google_url();
  } else {
    TRY(out.url, server_url(named));
    if (props.region.empty() && !region_in(out.url).empty()) out.region = region_in(out.url);
  }
  const bool is_account =
      props.kind == UpstreamKind::azure && is_same_url(named, endpoint(UpstreamKind::azure));
  if (is_account) out.azure = azure_;
  const bool is_allowed =
      is_account || listed_.contains(origin_of(out.url)) || is_own_host(props.kind, out.url);
  if (!is_allowed && SAFETY("safety.upstream_listed"))
    return fail(Errc::forbidden,
                "bucket \"{}\": targets may not ask {}: the operator allows it with the setting "
                "upstream.endpoints of each target",
                bucket.display(), origin_of(out.url));
  if (props.kind != UpstreamKind::web) out.url.path += "/" + bucket.name;
  return out;
}

Result<UpstreamServer> UpstreamServers::account_of(api::UpstreamKind kind) const {
  UpstreamServer out;
  out.kind = kind;
  out.name = fmt::format("{}://", api::provider_of(kind));
  if (!is_configured(kind))
    return fail(Errc::bucket_not_found,
                "buckets of {} are unknown: targets were started without a server or credentials "
                "for it (docs/upstream.md)",
                out.name);
  if (kind == api::UpstreamKind::s3) out.region = region_;
  if (kind == api::UpstreamKind::gcs) out.region = kGoogleRegion;
  if (kind == api::UpstreamKind::azure) {
    out.azure = azure_;
  } else {
    TRY(out.credentials, keys_of(kind, ""));
  }
  const std::string named = endpoint(kind);
  if (!named.empty()) {
    TRY(out.url, server_url(named));
    if (!region_in(out.url).empty()) out.region = region_in(out.url);
  } else {
    out.url = kind == api::UpstreamKind::s3 ? aws_url("", region_) : google_url();
  }
  return out;
}

Result<UpstreamServer> UpstreamServers::server_of_link(const http::Url& link) const {
  UpstreamServer out;
  out.kind = api::UpstreamKind::web;
  out.url = link;
  out.url.path.clear();
  if (!listed_.contains(origin_of(link)) && SAFETY("safety.download_listed"))
    return fail(Errc::forbidden,
                "targets may not ask {}: the operator allows it with the setting "
                "upstream.endpoints of each target",
                origin_of(link));
  return out;
}

}  // namespace tarn::target
