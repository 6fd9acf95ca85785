#include "common/security/azure_account.h"

#include <algorithm>

#include "common/base/encoding.h"

namespace tarn::security {
namespace {

constexpr const char* kConnection = "AZURE_STORAGE_CONNECTION_STRING";
constexpr const char* kAccountName = "AZURE_STORAGE_ACCOUNT";
constexpr const char* kAccountKey = "AZURE_STORAGE_KEY";
constexpr const char* kSasToken = "AZURE_STORAGE_SAS_TOKEN";
constexpr const char* kServiceUrl = "AIS_AZURE_URL";
constexpr const char* kPublicCloud = "core.windows.net";

/// An account as it is written, before it is checked.
struct AccountWords {
  std::string name;
  std::string key;
  std::string sas;
  std::string endpoint;
  std::string suffix = kPublicCloud;
};

/// "AccountName=a;AccountKey=b==;EndpointSuffix=core.windows.net": entries of other services are
/// not read.
Result<AccountWords> parse_connection(std::string_view text) {
  AccountWords out;
  while (!text.empty()) {
    const auto end = text.find(';');
    const auto entry = trim(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (entry.empty()) continue;
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos)
      return fail(Errc::invalid_argument, "{}: an entry is no Name=Value", kConnection);
    const std::string name = to_lower(entry.substr(0, equals));
    const std::string value(entry.substr(equals + 1));
    if (name == "accountname") out.name = value;
    if (name == "accountkey") out.key = value;
    if (name == "sharedaccesssignature") out.sas = value;
    if (name == "blobendpoint") out.endpoint = value;
    if (name == "endpointsuffix") out.suffix = value;
    if (name == "usedevelopmentstorage")
      return fail(Errc::invalid_argument,
                  "{}: UseDevelopmentStorage is not read here: write the account, its key and "
                  "BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1",
                  kConnection);
  }
  return out;
}

Result<AccountWords> account_words(const Environment& environment) {
  AccountWords out;
  if (const auto text = environment(kConnection)) {
    for (const char* other : {kAccountName, kAccountKey, kSasToken})
      if (environment(other))
        return fail(Errc::invalid_argument, "{} and {} are both set: leave one of them out",
                    kConnection, other);
    TRY(out, parse_connection(*text));
  } else {
    out.name = environment(kAccountName).value_or("");
    out.key = environment(kAccountKey).value_or("");
    out.sas = environment(kSasToken).value_or("");
  }
  if (const auto url = environment(kServiceUrl)) out.endpoint = *url;
  if (out.sas.starts_with('?')) out.sas.erase(0, 1);
  return out;
}

/// A name becomes part of a host name.
Status check_account_name(const std::string& name) {
  const bool is_name = name.size() <= 24 && std::all_of(name.begin(), name.end(), [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
                       });
  if (is_name) return {};
  return fail(Errc::invalid_argument,
              "{} '{}': the name of an account has lower-case letters and digits, at most 24",
              kAccountName, printable(name));
}

/// A SAS becomes part of every request's target.
Status check_sas(const std::string& sas) {
  const bool is_query =
      std::all_of(sas.begin(), sas.end(), [](char c) { return c > ' ' && c < '\x7f' && c != '#'; });
  if (is_query && sas.find("sig=") != std::string::npos) return {};
  return fail(Errc::invalid_argument,
              "{} is no shared access signature: it is a query such as sv=...&sig=..., encoded",
              kSasToken);
}

Status check_service_url(const std::string& url) {
  const bool is_url = url.starts_with("http://") || url.starts_with("https://");
  if (is_url && url.find_first_of(" ?#@") == std::string::npos) return {};
  return fail(Errc::invalid_argument,
              "{} (or BlobEndpoint) is no URL such as https://account.blob.core.windows.net, "
              "without query",
              kServiceUrl);
}

}  // namespace

Result<AzureAccount> load_azure_account(const Environment& environment) {
  TRY(AccountWords words, account_words(environment));
  if (!words.key.empty() && !words.sas.empty())
    return fail(Errc::invalid_argument,
                "{} and {} are both there: leave the one out that is not to be used", kAccountKey,
                kSasToken);
  const bool has_secret = !words.key.empty() || !words.sas.empty();
  const bool needs_name = !words.key.empty() || (has_secret && words.endpoint.empty());
  if (needs_name && words.name.empty())
    return fail(Errc::invalid_argument, "{} is there, and {} is not",
                words.key.empty() ? kSasToken : kAccountKey, kAccountName);
  TRY_OK(check_account_name(words.name));
  if (!words.endpoint.empty()) TRY_OK(check_service_url(words.endpoint));
  AzureAccount out;
  out.endpoint = std::move(words.endpoint);
  if (out.endpoint.empty() && !words.name.empty())
    out.endpoint = fmt::format("https://{}.blob.{}", words.name, words.suffix);
  if (!has_secret) return out;
  out.credentials = AzureCredentials{std::move(words.name), "", std::move(words.sas)};
  if (!out.credentials->sas.empty()) {
    TRY_OK(check_sas(out.credentials->sas));
    return out;
  }
  auto key = unbase64(words.key);
  if (!key || key->empty())
    return fail(Errc::invalid_argument, "{} is no key of an account: it is not base64",
                kAccountKey);
  out.credentials->key = std::move(*key);
  return out;
}

}  // namespace tarn::security
