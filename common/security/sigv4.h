#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tarn::security {

/// An identity of AWS, or of a server that speaks S3. Never logged.
struct AwsCredentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  ///< of temporary ones; empty otherwise
};

/// A request as AWS Signature Version 4 sees it (docs.aws.amazon.com: "Create a signed AWS API
/// request" and, for S3, "Authenticating Requests: Using the Authorization Header").
struct RequestToSign {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  std::string_view method;         ///< "GET"
  std::string_view path;           ///< as it is sent: S3 signs it encoded once
  Pairs query = {};                ///< decoded, in any order
  Pairs headers = {};              ///< all of them are signed; Host must be among them
  std::string_view payload = {};   ///< SHA-256 of the body in hex, or kUnsignedPayload
  std::string_view amz_date = {};  ///< "20130524T000000Z", as in the header x-amz-date
};

inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";
/// SHA-256 of the empty text.
inline constexpr std::string_view kEmptyPayload =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The query as it is signed, and must be sent: encoded and sorted. Without '?'.
[[nodiscard]] std::string canonical_query(RequestToSign::Pairs query);
/// The text that is hashed and signed.
[[nodiscard]] std::string canonical_request(const RequestToSign& request);
/// The value of the header Authorization. Pure; thread-safe.
[[nodiscard]] std::string sigv4_authorization(const RequestToSign& request,
                                              const AwsCredentials& credentials,
                                              std::string_view region, std::string_view service);
/// "20130524T000000Z" of seconds since the epoch.
[[nodiscard]] std::string amz_date(std::int64_t seconds);
/// SHA-256 in hex.
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace tarn::security
