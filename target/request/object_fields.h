#pragma once

#include <optional>

#include "common/http/message.h"
#include "target/node/node.h"

namespace tarn::target {

/// The fields that GET and HEAD share: those of the record (record_fields.h), and Tarn-Stale.
void add_object_fields(http::Response& response, const ObjectRequest& wanted,
                       const io::ObjectRecord& record);

/// The answer 304 when the conditions of a read demand it; nothing when the read goes on.
/// precondition_failed when one of them does not hold, unavailable when that is not known without a
/// lease.
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
