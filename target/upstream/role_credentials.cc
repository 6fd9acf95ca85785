#include "target/upstream/role_credentials.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "common/base/backoff.h"
#include "common/base/encoding.h"
#include "common/base/pause.h"
#include "common/base/resume.h"
#include "common/obs/log.h"
#include "target/upstream/dialect_s3.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kTokenBytesMax = 64U << 10U;
constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::size_t kRoleAnswerMax = 256U << 10U;
constexpr std::size_t kRoleSaidMax = 200;
constexpr auto kRoleCallMost = 5s;
constexpr std::chrono::milliseconds kRetryFirst{1'000};
constexpr std::chrono::milliseconds kRetryMax{60'000};
/// Between looks at the wall clock, which may be set, and goes on while a machine sleeps.
constexpr std::chrono::milliseconds kRoleLookEvery{1'000};
/// Part of the time for which credentials hold, before which they are not renewed.
constexpr std::int64_t kRenewPart = 3, kRenewParts = 4;
/// Not used so shortly before their end: a request may wait for its turn, and clocks differ.
constexpr std::int64_t kSpareSeconds = 5;
/// Services of ECS and of EKS Pod Identity on the machine of the container.
constexpr const char* kContainerHost = "169.254.170.2";
constexpr std::array kContainerHosts{kContainerHost, "169.254.170.23", "fd00:ec2::23", "::1",
                                     "localhost"};

http::Url sts_url(const std::string& region) {
  http::Url url;
  url.tls = true;
  url.port = 443;
  url.host = fmt::format("sts.{}.amazonaws.com{}", region, region.starts_with("cn-") ? ".cn" : "");
  url.path = "/";
  return url;
}

Result<std::optional<RoleSource>> web_identity(const security::Environment& environment,
                                               const std::string& region) {
  const auto file = environment("AWS_WEB_IDENTITY_TOKEN_FILE");
  const auto arn = environment("AWS_ROLE_ARN");
  if (!file) return std::nullopt;
  if (!arn)
    return fail(Errc::invalid_argument,
                "AWS_WEB_IDENTITY_TOKEN_FILE is set and AWS_ROLE_ARN is not: the role is wanted");
  RoleSource out;
  out.url = sts_url(region);
  if (const auto named = environment("AWS_ENDPOINT_URL_STS")) {
    auto url = http::parse_http_or_https(*named);
    if (!url) return fail(Errc::invalid_argument, "AWS_ENDPOINT_URL_STS: {}", url.error().message);
    out.url = std::move(*url);
  }
  out.role_arn = *arn;
  out.session = environment("AWS_ROLE_SESSION_NAME").value_or("tarn");
  out.token_file = *file;
  out.description = "role " + *arn;
  return out;
}

/// True for a host that requests reach without leaving the machine.
bool is_near(const std::string& host) {
  return host.starts_with("127.") ||
         std::any_of(kContainerHosts.begin(), kContainerHosts.end(),
                     [&](const char* each) { return iequals(host, each); });
}

Result<std::optional<RoleSource>> container(const security::Environment& environment) {
  const auto path = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const auto full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!path && !full) return std::nullopt;
  if (path && !path->starts_with('/'))
    return fail(Errc::invalid_argument,
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is \"{}\": a path is wanted", *path);
  const std::string text = path ? fmt::format("http://{}{}", kContainerHost, *path) : *full;
  auto url = http::parse_http_or_https(text);
  if (!url)
    return fail(Errc::invalid_argument, "AWS_CONTAINER_CREDENTIALS_FULL_URI: {}",
                url.error().message);
  if (!url->tls && !is_near(url->host))
    return fail(Errc::invalid_argument,
                "AWS_CONTAINER_CREDENTIALS_FULL_URI: {} is not on this machine, so https is wanted",
                url->authority());
  RoleSource out;
  out.url = std::move(*url);
  out.token_file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").value_or("");
  out.token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN").value_or("");
  out.description = "container credentials of " + out.url.authority();
  return out;
}

/// The text of a token's file. Blocking, for a small file.
Result<std::string> read_token(const std::string& path) {
  std::ifstream file(path);
  std::string text(kTokenBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof()))
    return fail(Errc::unavailable, "token file {} cannot be read", path);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() == kTokenBytesMax)
    return fail(Errc::unavailable, "token file {} is too large", path);
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return fail(Errc::unavailable, "token file {} is empty", path);
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

/// The text of a JSON object's member; empty where it has none, or another type.
std::string text_of(const nlohmann::json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

Result<std::optional<RoleSource>> role_source(const security::Environment& environment,
                                              const std::string& region, bool has_keys) {
  if (environment("AWS_ACCESS_KEY_ID") || environment("AWS_PROFILE")) return std::nullopt;
  TRY(auto found, web_identity(environment, region));
  if (found || has_keys) return found;
  return container(environment);
}

http::ClientRequest role_request(const RoleSource& source, std::string_view token) {
  http::ClientRequest out;
  out.target = source.url.path.empty() ? "/" : source.url.path;
  out.fields.push_back({"Accept", source.role_arn.empty() ? "application/json" : "text/xml"});
  if (source.role_arn.empty()) {
    if (!token.empty()) out.fields.push_back({"Authorization", std::string(token)});
    return out;
  }
  out.method = http::Method::post;
  out.fields.push_back({"Content-Type", "application/x-www-form-urlencoded"});
  out.body = security::canonical_query({{"Action", "AssumeRoleWithWebIdentity"},
                                        {"Version", "2011-06-15"},
                                        {"RoleArn", source.role_arn},
                                        {"RoleSessionName", source.session},
                                        {"WebIdentityToken", std::string(token)}});
  return out;
}

std::string role_refusal_in(const std::string& body) {
  std::string code;
  std::string message;
  if (body.starts_with('<')) {
    pugi::xml_document xml;
    static_cast<void>(xml.load_buffer(body.data(), body.size()));
    const pugi::xml_node root = xml.document_element();
    const pugi::xml_node error = root.child("Error") ? root.child("Error") : root;
    code = error.child_value("Code");
    message = error.child_value("Message");
  } else if (const auto json = nlohmann::json::parse(body, nullptr, false); json.is_object()) {
    code = text_of(json, "code") + text_of(json, "Code");
    message = text_of(json, "message") + text_of(json, "Message");
  } else {
    message = body.substr(0, body.find('\n'));
  }
  std::string said = code + (code.empty() || message.empty() ? "" : ": ") + message;
  if (said.size() > kRoleSaidMax) said.resize(kRoleSaidMax);
  return printable(said);
}

Result<RoleCredentials::Temporary> credentials_in(const RoleSource& source,
                                                  const std::string& body) {
  RoleCredentials::Temporary out;
  std::string expiration;
  if (source.role_arn.empty()) {
    const auto json = nlohmann::json::parse(body, nullptr, false);
    out.keys = {text_of(json, "AccessKeyId"), text_of(json, "SecretAccessKey"),
                text_of(json, "Token")};
    expiration = text_of(json, "Expiration");
  } else {
    pugi::xml_document xml;
    static_cast<void>(xml.load_buffer(body.data(), body.size()));
    const pugi::xml_node keys = xml.child("AssumeRoleWithWebIdentityResponse")
                                    .child("AssumeRoleWithWebIdentityResult")
                                    .child("Credentials");
    out.keys = {keys.child_value("AccessKeyId"), keys.child_value("SecretAccessKey"),
                keys.child_value("SessionToken")};
    expiration = keys.child_value("Expiration");
  }
  const bool is_utc = expiration.ends_with('Z') || expiration.ends_with("+00:00");
  const auto expires = is_utc ? parse_iso_time(expiration.c_str()) : std::nullopt;
  if (out.keys.access_key.empty() || out.keys.secret_key.empty() || !expires)
    return fail(Errc::bad_upstream, "{} answered without keys that expire", source.url.authority());
  out.expires = *expires;
  return out;
}

std::int64_t RoleCredentials::now() const {
  return std::chrono::floor<std::chrono::seconds>(clock_.wall_time()).count();
}

Result<security::AwsCredentials> RoleCredentials::get() const {
  const MutexLock lock(mutex_);
  if (now_ && now() + kSpareSeconds < now_->expires) return now_->keys;
  return fail(Errc::unavailable, "the credentials of {} {}{}{}", source_.description,
              now_ ? "have expired" : "are not here yet", last_failure_.empty() ? "" : ": ",
              last_failure_);
}

Task<Result<RoleCredentials::Temporary>> RoleCredentials::fetch(http::Client& client) const {
  std::string token = source_.token;
  if (!source_.token_file.empty()) {
    CO_TRY(token, read_token(source_.token_file));
  }
  http::CallLimits limits;
  limits.connect = limits.total = kRoleCallMost;
  limits.body_bytes_max = kRoleAnswerMax;
  CO_TRY(const auto answer,
         co_await client.call(source_.url, role_request(source_, token), limits));
  if (answer.status != 200)
    co_return fail(Errc::bad_upstream, "{} answered {} {}", source_.url.authority(), answer.status,
                   role_refusal_in(answer.body));
  CO_TRY(Temporary got, credentials_in(source_, answer.body));
  if (got.expires <= now() + kSpareSeconds)
    co_return fail(Errc::bad_upstream,
                   "{} sent credentials that end in {} s by the clock of this machine",
                   source_.url.authority(), got.expires - now());
  co_return got;
}

Task<bool> RoleCredentials::renew(http::Client client) {
  auto fetched = co_await fetch(client);
  if (fetched) {
    const std::int64_t left = fetched->expires - now();
    renew_at_ = now() + (left - kSpareSeconds) * kRenewPart / kRenewParts;
    obs::log("target").info("credentials renewed of={} expire_in={}", source_.description, left);
  } else {
    obs::log("target").warn("credentials not renewed of={} err={}", source_.description,
                            fetched.error().message);
  }
  const bool done = fetched.has_value();
  const MutexLock lock(mutex_);
  last_failure_ = done ? std::string() : std::move(fetched.error().message);
  if (done) now_ = std::move(*fetched);
  co_return done;
}

Task<void> RoleCredentials::keep(http::Client client) {
  Backoff backoff(kRetryFirst, kRetryMax);
  while (!co_await is_cancelled()) {
    std::chrono::milliseconds wait = kRoleLookEvery;
    if (now() >= renew_at_) {
      const bool done = co_await renew(client);
      if (done) backoff.reset();
      if (!done) wait = backoff.next();
    }
    co_await pause(wait);
  }
}

}  // namespace tarn::target
