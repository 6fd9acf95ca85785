#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/error.h"

namespace tarn::api {

/// Metadata that users attach to an object: keys and values, in the order they came. AIStore's
/// `Ais-Custom-Md` (docs/api.md).
using CustomMetadata = std::vector<std::pair<std::string, std::string>>;

/// Keys under which a record notes the checksum that its bucket asks for, when that is another one
/// than XXH64; of type "none" there is no value. Users cannot set them.
inline constexpr const char* kChecksumTypeKey = "Ais-Checksum-Type";
inline constexpr const char* kChecksumValueKey = "Ais-Checksum-Value";
/// True for these two, in any case.
[[nodiscard]] bool is_checksum_key(std::string_view key);

/// Keys under which a record notes the provider that its object was fetched from ("aws"), and the
/// entity tag that the object has there. Users cannot set them, and a copy does not have them.
inline constexpr const char* kSourceKey = "Tarn-Source";
inline constexpr const char* kSourceTagKey = "Tarn-Source-ETag";
/// The key under which a tombstone notes that its name is being written upstream.
inline constexpr const char* kWritingKey = "Tarn-Writing";
/// True for keys that the cluster sets and users cannot, in any case.
[[nodiscard]] bool is_reserved_key(std::string_view key);

/// Limit of one object, in bytes: those of all keys and values, and two more for each pair.
/// Reserved keys are not counted.
inline constexpr std::size_t kCustomMetadataBytesMax = 2048;
[[nodiscard]] std::size_t custom_metadata_bytes(const CustomMetadata& pairs);

/// The pairs of all lines of the field `Ais-Custom-Md`: "a=1" each, or, joined by clients and
/// proxies that cannot repeat a field, "a=1, b=2". Text after a comma that has no '=' still belongs
/// to the value before it. invalid_argument as check_custom_metadata, for a line without '=', and
/// for a key that users cannot set.
[[nodiscard]] Result<CustomMetadata> custom_from_lines(const std::vector<std::string_view>& lines);
/// The pairs of a JSON object whose values are strings: the value of a PATCH. invalid_argument.
[[nodiscard]] Result<CustomMetadata> custom_from_json(const nlohmann::json& value);
/// `changes` over `old`: new values for keys that are there, new keys after them.
[[nodiscard]] CustomMetadata merged(CustomMetadata old, const CustomMetadata& changes);
/// Checks that each pair comes back unchanged in a header field of its own, and that there are not
/// too many bytes: no empty key, no '=' in a key, UTF-8 without control characters, no space at
/// either end. Errors: invalid_argument, with a sentence that names the needed change.
Status check_custom_metadata(const CustomMetadata& pairs);

}  // namespace tarn::api
