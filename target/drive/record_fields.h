#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/api/custom_metadata.h"
#include "common/http/message.h"
#include "common/io/object_attribute.h"

namespace tarn::target {

/// The fields that GET and HEAD share and a record alone decides: type, ETag, dates, checksum,
/// version, custom metadata (a line for each pair, as AIStore's clients read it).
void add_record_fields(http::Response& response, const io::ObjectRecord& record);
/// The same as lines, as they go out: made once for an object that is read often.
[[nodiscard]] std::string object_field_lines(const io::ObjectRecord& record);
/// Pairs that AIStore's clients read in the custom metadata of an object that was fetched from
/// upstream: "source" (the provider), "ETag" and "orig_url". Empty for other objects.
[[nodiscard]] api::CustomMetadata source_fields(const io::ObjectRecord& record);
/// True for the keys of custom metadata that hold the fields of a PUT about its content: fields of
/// their own in answers, not lines of `Ais-Custom-Md`.
[[nodiscard]] bool is_content_field(std::string_view key);
/// A change of custom metadata, as a PATCH asks for it.
struct MetadataChange {
  api::CustomMetadata pairs;
  bool replaces = false;  ///< pairs that it does not name are removed, but for is_content_field()
};
/// `old` after `change`. invalid_argument as check_custom_metadata().
[[nodiscard]] Result<api::CustomMetadata> with_change(api::CustomMetadata old,
                                                      const MetadataChange& change);
/// The checksum that an object shows, and AIStore's word for its type.
struct ObjectChecksum {
  std::string type;
  std::string value;  ///< lower-case hex
};
/// The one of its bucket when it was written; nothing when that keeps none.
[[nodiscard]] std::optional<ObjectChecksum> checksum_of(const io::ObjectRecord& record);
/// Its two fields, or none.
void add_checksum_fields(http::Response& response, const io::ObjectRecord& record);
/// A line of `Ais-Custom-Md` for each pair.
void add_custom_fields(http::Response& response, const io::ObjectRecord& record);
/// Last-Modified, in seconds since the epoch.
[[nodiscard]] std::int64_t modified_seconds(const io::ObjectRecord& record);

}  // namespace tarn::target
