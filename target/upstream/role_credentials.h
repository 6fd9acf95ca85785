#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/http/client.h"
#include "common/security/aws_credentials.h"

namespace tarn::target {

/// Service that sends a role's temporary credentials, in place of keys.
struct RoleSource {
  http::Url url;           ///< of the service; its path is that of the request
  std::string role_arn;    ///< of AssumeRoleWithWebIdentity (AWS STS); empty: a container's service
  std::string session;     ///< name of the session, for logs of AWS
  std::string token_file;  ///< is read at each request, since its text changes; empty: none
  std::string token;       ///< of a container's service, where no file has it; empty: none
  std::string description;  ///< for messages: "role ARN", "container credentials of URL"
};

/// Finds the source that the environment names: AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN
/// (Amazon EKS, "IAM roles for service accounts"), or AWS_CONTAINER_CREDENTIALS_FULL_URI or
/// _RELATIVE_URI (EKS Pod Identity, ECS). The order is that of AWS's programs ("Standardized
/// credential providers", AWS SDKs and Tools Reference Guide): keys in variables and a named
/// profile come before the first, a default profile before the second. `has_keys`: there are keys
/// or a default profile. Nothing: none. invalid_argument for a token's file without a role, and for
/// http to another machine.
[[nodiscard]] Result<std::optional<RoleSource>> role_source(
    const security::Environment& environment, const std::string& region, bool has_keys);

/// Temporary credentials of a role, renewed before they expire. Thread-safe.
class RoleCredentials {
 public:
  struct Temporary {
    security::AwsCredentials keys;
    std::int64_t expires = 0;  ///< seconds since the epoch
  };

  RoleCredentials(RoleSource source, Clock& clock) : source_(std::move(source)), clock_(clock) {}

  /// Returns the present ones. unavailable before the first ones have come, and when they have
  /// expired: the message has the reason.
  [[nodiscard]] Result<security::AwsCredentials> get() const;
  /// Fetches them once, within a few seconds. False: a failure, which get() reports. Not while
  /// keep() runs.
  Task<bool> renew(http::Client client);
  /// Renews them for ever, when three quarters of their time are over. Failures are tried again
  /// with back-off. Ends when cancelled.
  Task<void> keep(http::Client client);

 private:
  [[nodiscard]] std::int64_t now() const;
  Task<Result<Temporary>> fetch(http::Client& client) const;

  const RoleSource source_;
  Clock& clock_;
  std::int64_t renew_at_ = 0;  // of renew(); seconds since the epoch
  mutable Mutex mutex_;
  std::optional<Temporary> now_ TARN_GUARDED_BY(mutex_);
  std::string last_failure_ TARN_GUARDED_BY(mutex_);
};

/// The request to `source` with this token. Pure.
[[nodiscard]] http::ClientRequest role_request(const RoleSource& source, std::string_view token);
/// Reads the reason in a refusal of either kind of service: code and message, or a line of text.
[[nodiscard]] std::string role_refusal_in(const std::string& body);
/// Reads the credentials in an answer 200 of a source: XML of STS, or JSON of a container's
/// service. bad_upstream for what has none; the message has nothing of the answer, which may be
/// secret.
[[nodiscard]] Result<RoleCredentials::Temporary> credentials_in(const RoleSource& source,
                                                                const std::string& body);

}  // namespace tarn::target
