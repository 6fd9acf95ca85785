#include "common/security/sigv4.h"

#include <algorithm>
#include <array>
#include <ctime>

#include <fmt/chrono.h>
#include <openssl/sha.h>

#include "common/base/encoding.h"
#include "common/security/hmac.h"

namespace tarn::security {
namespace {

using Pairs = RequestToSign::Pairs;

/// A header's value without spaces at its ends, and with one where there are several.
std::string squeezed(std::string_view value) {
  std::string out;
  for (const char c : trim(value))
    if (c != ' ' || out.empty() || out.back() != ' ') out += c;
  return out;
}

Pairs sorted_headers(const Pairs& headers) {
  Pairs out;
  for (const auto& [name, value] : headers) out.emplace_back(to_lower(name), squeezed(value));
  std::sort(out.begin(), out.end());
  return out;
}

std::string names_of(const Pairs& headers) {
  std::string out;
  for (const auto& [name, value] : headers) out += (out.empty() ? "" : ";") + name;
  return out;
}

std::string hmac(std::string_view key, std::string_view message) {
  const auto digest = HmacKey(key).sign(message);
  return {digest.data(), digest.size()};
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string amz_date(std::int64_t seconds) {
  return fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::string canonical_query(Pairs query) {
  // By the encoded names, and of equal ones by the encoded values.
  for (auto& [name, value] : query) {
    name = percent_encode(name);
    value = percent_encode(value);
  }
  std::sort(query.begin(), query.end());
  std::string out;
  for (const auto& [name, value] : query) {
    if (!out.empty()) out += '&';
    out.append(name).append("=").append(value);
  }
  return out;
}

std::string canonical_request(const RequestToSign& request) {
  const Pairs headers = sorted_headers(request.headers);
  std::string out =
      fmt::format("{}\n{}\n{}\n", request.method, request.path, canonical_query(request.query));
  for (const auto& [name, value] : headers) out.append(name).append(":").append(value) += '\n';
  out += '\n';
  out.append(names_of(headers)).append("\n").append(request.payload);
  return out;
}

std::string sigv4_authorization(const RequestToSign& request, const AwsCredentials& credentials,
                                std::string_view region, std::string_view service) {
  const std::string_view day = request.amz_date.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", day, region, service);
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", request.amz_date, scope,
                                          sha256_hex(canonical_request(request)));
  std::string key = hmac("AWS4" + credentials.secret_key, day);
  for (const std::string_view part : {region, service, std::string_view("aws4_request")})
    key = hmac(key, part);
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}",
                     credentials.access_key, scope, names_of(sorted_headers(request.headers)),
                     hex(hmac(key, to_sign)));
}

}  // namespace tarn::security
