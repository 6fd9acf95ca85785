#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/security/sigv4.h"

namespace tarn::security {

/// A variable of the environment; nothing when it is not set or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] Environment process_environment();

/// Who this node is towards servers that speak S3, as AWS's own programs find it out:
/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; or else the profile AWS_PROFILE
/// ("default") of the file AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials). A secret of Kubernetes
/// is one of the two. Immutable; thread-safe.
class AwsIdentities {
 public:
  AwsIdentities() = default;
  /// Reads them once. Blocking: at the start. A file that was named and cannot be read is
  /// invalid_argument, and so is one that is malformed; one that is not there says nothing.
  [[nodiscard]] static Result<AwsIdentities> load(const Environment& environment);

  /// Of `profile`; empty: what the environment says, or the file's default. invalid_argument for a
  /// profile that the file does not have. Nothing: requests are not signed.
  [[nodiscard]] Result<std::optional<AwsCredentials>> find(const std::string& profile) const;

 private:
  std::optional<AwsCredentials> usual_;
  std::map<std::string, AwsCredentials> profiles_;
};

/// The profiles of such a file (an INI: "[name]" and "key = value"). invalid_argument, with the
/// line's number and without its text, for what it cannot be.
[[nodiscard]] Result<std::map<std::string, AwsCredentials>> parse_credentials_file(
    std::string_view text);

}  // namespace tarn::security
