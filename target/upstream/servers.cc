#include "target/upstream/servers.h"

#include <utility>

#include "common/base/encoding.h"
#include "common/base/fail_point.h"

namespace tarn::target {
namespace {

constexpr const char* kDefaultRegion = "us-east-1";

std::string origin_of(const http::Url& url) {
  return fmt::format("{}://{}", url.tls ? "https" : "http", to_lower(url.authority()));
}

Result<http::Url> server_url(std::string_view text) {
  TRY(http::Url url, http::parse_http_or_https(text));
  while (url.path.ends_with('/')) url.path.pop_back();
  return url;
}

/// S3 itself: not the services of others that AWS hosts.
bool is_aws_host(const http::Url& url) {
  const std::string host = to_lower(url.host);
  const bool is_s3 = host.starts_with("s3.") || host.starts_with("s3-");
  return url.tls && url.port == 443 && is_s3 &&
         (host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn"));
}

/// AWS's host of a region. A bucket is a part of the host name, but for names with a dot, for which
/// AWS's certificates do not hold.
http::Url aws_url(const std::string& bucket, const std::string& region) {
  http::Url url;
  url.tls = true;
  url.port = 443;
  url.path = "";
  url.host = fmt::format("s3.{}.amazonaws.com", region);
  if (bucket.find('.') == std::string::npos)
    url.host = bucket + "." + url.host;
  else
    url.path = "/" + bucket;
  return url;
}

}  // namespace

std::string UpstreamServer::display() const { return origin_of(url) + url.path; }

Result<UpstreamServers> UpstreamServers::load(std::string_view listed,
                                              const security::Environment& environment) {
  UpstreamServers out;
  std::string all(listed);
  if (const auto endpoint = environment("AWS_ENDPOINT_URL")) {
    out.endpoint_ = *endpoint;
    all += (all.empty() ? "" : ",") + *endpoint;
  }
  std::string_view rest = all;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const auto text = trim(rest.substr(0, comma));
    const auto url = server_url(text);
    if (!url)
      return fail(Errc::invalid_argument,
                  "upstream.endpoints: {}: URLs such as http://host:9000 {}", url.error().message,
                  "are wanted, with commas between them");
    out.listed_.insert(origin_of(*url));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  out.region_ = environment("AWS_REGION").value_or(kDefaultRegion);
  TRY(out.identities_, security::AwsIdentities::load(environment));
  return out;
}

bool UpstreamServers::is_configured() const {
  const auto usual = identities_.find("");
  return !endpoint_.empty() || (usual && usual->has_value());
}

Result<UpstreamServer> UpstreamServers::server_of(const api::Bucket& bucket,
                                                  const api::UpstreamProps& props) const {
  UpstreamServer out;
  out.kind = props.kind;
  out.bucket = bucket.name;
  const bool is_s3 = props.kind == api::UpstreamKind::s3;
  if (is_s3) {
    out.region = props.region.empty() ? region_ : props.region;
    TRY(out.credentials, identities_.find(props.profile));
  }
  const std::string& named = props.url.empty() ? endpoint_ : props.url;
  if (named.empty()) {
    out.url = aws_url(bucket.name, out.region);
    return out;
  }
  TRY(out.url, server_url(named));
  const bool is_allowed = listed_.contains(origin_of(out.url)) || (is_s3 && is_aws_host(out.url));
  if (!is_allowed && SAFETY("safety.upstream_listed"))
    return fail(Errc::forbidden,
                "bucket \"{}\": targets may not ask {}: the operator allows it with the setting "
                "upstream.endpoints of each target",
                bucket.display(), origin_of(out.url));
  if (is_s3) out.url.path += "/" + bucket.name;
  return out;
}

}  // namespace tarn::target
