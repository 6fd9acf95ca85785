#include "common/cluster/store/etcd_options.h"

#include <algorithm>
#include <optional>

#include "common/cluster/store/gateway_store.h"
#include "common/http/client.h"
#include "common/security/secret_file.h"

namespace tarn::cluster {
namespace {

bool is_https(const std::string& endpoint) {
  const auto url = http::parse_http_or_https(endpoint);
  return url && url->tls;
}

Result<std::optional<EtcdUser>> user_of(const EtcdOptions& options) {
  if (options.user.empty() != options.password_file.empty())
    return fail(Errc::invalid_argument, "--meta-user and --meta-password-file go together");
  if (options.user.empty()) return std::optional<EtcdUser>();
  TRY(std::string text, security::read_secret_file(options.password_file));
  text.resize(std::min(text.size(), text.find_first_of("\r\n")));
  return std::optional(EtcdUser{options.user, std::move(text)});
}

}  // namespace

Result<std::vector<std::string>> parse_endpoints(std::string_view text) {
  std::vector<std::string> out;
  while (true) {
    const auto comma = text.find(',');
    std::string one(text.substr(0, comma));
    TRY(const auto url, http::parse_http_or_https(one));
    if (url.path != "/")
      return fail(Errc::invalid_argument, "'{}': want scheme, host and port of etcd, no path", one);
    while (one.ends_with('/')) one.pop_back();
    out.push_back(std::move(one));
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

Result<std::unique_ptr<MetaStore>> open_etcd(const EtcdOptions& options) {
  const auto& endpoints = options.endpoints;
  const bool any_tls = std::any_of(endpoints.begin(), endpoints.end(), is_https);
  if (any_tls && !std::all_of(endpoints.begin(), endpoints.end(), is_https))
    return fail(Errc::invalid_argument, "all URLs of etcd are https, or none is");
  const auto& tls = options.tls;
  if (!any_tls && !(tls.ca.empty() && tls.certificate.empty() && tls.key.empty()))
    return fail(Errc::invalid_argument,
                "--meta-ca, --meta-cert and --meta-key are for etcd at https:// URLs");
  TRY(auto user, user_of(options));
  http::Client client;
  if (any_tls) {
    TRY(auto context, http::TlsContext::load(tls));
    client = http::Client(std::move(context));
  }
  return std::unique_ptr<MetaStore>(
      std::make_unique<GatewayStore>(std::move(client), endpoints, nullptr, std::move(user)));
}

}  // namespace tarn::cluster
