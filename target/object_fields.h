#pragma once

#include <optional>
#include <string>

#include "common/api/custom_metadata.h"
#include "common/http/message.h"
#include "target/node.h"

namespace tarn::target {

/// The fields that GET and HEAD share: type, ETag, dates, checksum, version, custom metadata (a
/// line for each pair, as AIStore's clients read it), Tarn-Stale.
void add_object_fields(http::Response& response, const ObjectRequest& wanted,
                       const io::ObjectRecord& record);
/// The same without Tarn-Stale, as it goes out: made once for an object that is read often.
[[nodiscard]] std::string object_field_lines(const io::ObjectRecord& record);
/// What AIStore's clients read in the custom metadata of an object that was fetched from upstream:
/// "source" (the provider) and "ETag". Empty for other objects.
[[nodiscard]] api::CustomMetadata source_fields(const io::ObjectRecord& record);
/// True for the keys of custom metadata that hold what a PUT said of its content: fields of their
/// own in answers, not lines of `Ais-Custom-Md`.
[[nodiscard]] bool is_content_field(std::string_view key);
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

/// The answer 304 when the conditions of a read say so; nothing when the read goes on.
/// precondition_failed when one of them does not hold, unavailable when that cannot be said without
/// a lease.
[[nodiscard]] Result<std::optional<http::Response>> judge_conditions(
    const http::RequestHead& head, const ObjectRequest& wanted, const io::ObjectRecord& record);

/// The part of an object that a GET asks for: `response` has the status 200, or 206 with
/// Content-Range. Refused: `response` is complete, 416 with AIStore's error and `Content-Range:
/// bytes */SIZE`.
struct RangeAnswer {
  http::ByteRange range;
  http::Response response;
  bool refused = false;
};
[[nodiscard]] RangeAnswer choose_range(const http::Request& request, const ObjectRequest& wanted,
                                       const io::ObjectRecord& record);

}  // namespace tarn::target
