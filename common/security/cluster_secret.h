#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"

namespace tarn::security {

/// The secret that every node of a cluster has: 32 random bytes, in a file as 64 hex digits, mode
/// 0600. Keys for single uses are derived from it; it never leaves the node and is never logged.
class ClusterSecret {
 public:
  /// Reads `file`. invalid_argument when it is missing, malformed, or readable by other users.
  [[nodiscard]] static Result<ClusterSecret> load(const std::filesystem::path& file);
  /// Reads `file`, or makes it (synced) when there is none.
  [[nodiscard]] static Result<ClusterSecret> load_or_create(const std::filesystem::path& file);
  explicit ClusterSecret(std::string bytes) : bytes_(std::move(bytes)) {}

  /// HKDF-SHA256 (RFC 5869) with `purpose` as info; 32 bytes.
  [[nodiscard]] std::string derive(std::string_view purpose) const;

 private:
  std::string bytes_;
};

/// RFC 5869. `length` is at most 8,160.
[[nodiscard]] std::string hkdf_sha256(std::string_view secret, std::string_view salt,
                                      std::string_view info, std::size_t length);
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view message);
/// Compares without a data-dependent time.
[[nodiscard]] bool equal_constant_time(std::string_view a, std::string_view b);

}  // namespace tarn::security
