#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/base/error.h"

namespace tarn::api {

/// AIStore's name of a bucket: provider, namespace, name (docs/api.md).
struct Bucket {
  std::string provider = "ais";
  std::string ns_uuid;
  std::string ns_name;
  std::string name;

  auto operator<=>(const Bucket&) const = default;

  /// Text that placement hashes, before the object's name: "ais/@#/photos/".
  [[nodiscard]] std::string uname() const;
  /// Text that placement hashes for an object: "ais/@#/photos/cat.jpg".
  [[nodiscard]] std::string uname(std::string_view object) const;
  /// The form that people and clients' error parsers see: "ais://photos", "ais://@uuid#ns/photos".
  [[nodiscard]] std::string display() const;
};

void to_json(nlohmann::json& out, const Bucket& bucket);
/// Throws nlohmann's exceptions; "name" is required, all else has AIStore's defaults.
void from_json(const nlohmann::json& in, Bucket& bucket);

/// "ais" for "ais" or "", "aws" for "s3" or "aws", ...; invalid_argument for an unknown word.
[[nodiscard]] Result<std::string> canonical_provider(std::string_view word);

/// Splits "@uuid#name" into `bucket`. Empty means the global namespace.
Status parse_namespace(std::string_view text, Bucket& bucket);

/// 1 to 64 of [A-Za-z0-9_.-], no "..", no leading dot. Reserved words of the URL space are refused
/// too.
Status check_bucket_name(std::string_view name);
/// 1 to 1,024 bytes of UTF-8 without NUL, no "." or ".." component, no leading "~/" or "/", no
/// trailing "/", no empty component.
Status check_object_name(std::string_view name);
/// As an object name, but may be empty or end in "/".
Status check_prefix(std::string_view prefix);

/// True if `word` is a path of Tarn itself ("v1", "s3", "ui", "metrics", ...).
[[nodiscard]] bool is_reserved_word(std::string_view word);

inline constexpr std::size_t kObjectNameBytesMax = 1024;

}  // namespace tarn::api
