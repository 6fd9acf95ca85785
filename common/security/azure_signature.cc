#include "common/security/azure_signature.h"

#include <algorithm>

#include "common/base/encoding.h"
#include "common/security/hmac.h"

namespace tarn::security {
namespace {

/// The value of a header, or none.
std::string_view header_value(const AzureRequest::Pairs& headers, std::string_view wanted) {
  for (const auto& [name, value] : headers)
    if (iequals(name, wanted)) return trim(value);
  return {};
}

}  // namespace

std::string azure_string_to_sign(const AzureRequest& request, std::string_view account) {
  const std::string length =
      request.content_length == 0 ? "" : std::to_string(request.content_length);
  const auto value = [&](const char* name) { return header_value(request.headers, name); };
  // Date is empty: x-ms-date stands for it.
  std::string out = fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}\n\n{}\n{}\n{}\n{}\n{}\n", request.method, value("Content-Encoding"),
      value("Content-Language"), length, value("Content-MD5"), value("Content-Type"),
      value("If-Modified-Since"), value("If-Match"), value("If-None-Match"),
      value("If-Unmodified-Since"), value("Range"));
  AzureRequest::Pairs own;
  for (const auto& [name, text] : request.headers)
    if (std::string lower = to_lower(name); lower.starts_with("x-ms-"))
      own.emplace_back(std::move(lower), trim(text));
  std::sort(own.begin(), own.end());
  for (const auto& [name, text] : own) out.append(name).append(":").append(text) += '\n';
  out.append("/").append(account).append(request.path);
  AzureRequest::Pairs query;
  for (const auto& [name, text] : request.query) query.emplace_back(to_lower(name), text);
  std::sort(query.begin(), query.end());
  for (const auto& [name, text] : query) out.append("\n").append(name).append(":").append(text);
  return out;
}

std::string azure_authorization(const AzureRequest& request, const AzureCredentials& credentials) {
  const auto digest =
      HmacKey(credentials.key).sign(azure_string_to_sign(request, credentials.account));
  return fmt::format("SharedKey {}:{}", credentials.account,
                     base64({digest.data(), digest.size()}));
}

}  // namespace tarn::security
