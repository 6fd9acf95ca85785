#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/security/sigv4.h"

namespace tarn::security {

/// A variable of the environment; none if it is not set or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] Environment process_environment();

/// Names of the variables, and of the entries of a file, that have the keys for one cloud. "" where
/// it has none. Keys of one cloud are found under none of the names of another.
struct IdentityNames {
  const char* access_key;
  const char* secret_key;
  const char* session_token;
  const char* file;       ///< variable with the path of the file
  const char* home_file;  ///< read when that variable is not set; below $HOME
  const char* profile;    ///< variable with the profile that is used where none is named
  std::string_view access_entry;
  std::string_view secret_entry;
  std::string_view token_entry;
  const char* property;  ///< bucket property that names a profile, for messages
};
/// As AWS's own programs have them.
inline constexpr IdentityNames kAwsNames{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                         "AWS_SESSION_TOKEN", "AWS_SHARED_CREDENTIALS_FILE",
                                         "/.aws/credentials", "AWS_PROFILE",
                                         "aws_access_key_id", "aws_secret_access_key",
                                         "aws_session_token", "extra.aws.profile"};
/// HMAC keys of Google Cloud Storage. The entries are those of gsutil's boto file.
inline constexpr IdentityNames kGoogleNames{
    "GCS_ACCESS_KEY_ID", "GCS_SECRET_ACCESS_KEY", "", "GCS_CREDENTIALS_FILE", "", "GCS_PROFILE",
    "gs_access_key_id",  "gs_secret_access_key",  "", "extra.gcp.profile"};

/// Identities of this node towards servers that speak S3: the keys of the environment, or else a
/// profile ("default") of a file. A secret of Kubernetes is one of the two. Immutable; thread-safe.
class AwsIdentities {
 public:
  AwsIdentities() = default;
  /// Reads them once. Blocking: at the start. A file that was named and cannot be read is
  /// invalid_argument, and so is one that is malformed; one that is not there is ignored.
  [[nodiscard]] static Result<AwsIdentities> load(const Environment& environment,
                                                  const IdentityNames& names = kAwsNames);

  /// Credentials of `profile`; empty: those of the environment, or the file's default.
  /// invalid_argument for a profile that the file does not have. None: requests are not signed.
  [[nodiscard]] Result<std::optional<AwsCredentials>> find(const std::string& profile) const;

 private:
  IdentityNames names_ = kAwsNames;
  std::optional<AwsCredentials> usual_;
  std::map<std::string, AwsCredentials> profiles_;
};

/// The profiles of such a file (an INI: "[name]" and "key = value"). invalid_argument, with the
/// line's number and without its text, for an impossible line.
[[nodiscard]] Result<std::map<std::string, AwsCredentials>> parse_credentials_file(
    std::string_view text, const IdentityNames& names = kAwsNames);

}  // namespace tarn::security
