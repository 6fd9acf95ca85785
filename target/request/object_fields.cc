#include "target/request/object_fields.h"

#include "common/http/error_response.h"
#include "target/drive/record_fields.h"

namespace tarn::target {

void add_object_fields(http::Response& response, const ObjectRequest& wanted,
                       const io::ObjectRecord& record) {
  add_record_fields(response, record);
  if (wanted.stale_seconds > 0) response.set("Tarn-Stale", std::to_string(wanted.stale_seconds));
}

Result<std::optional<http::Response>> judge_conditions(const http::RequestHead& head,
                                                       const ObjectRequest& wanted,
                                                       const io::ObjectRecord& record) {
  if (!http::has_conditions(head)) return std::optional<http::Response>();
  const std::string etag = record.etag();
  switch (http::check_read_conditions(head, etag, modified_seconds(record))) {
    case http::Condition::failed:
      // A newer version elsewhere may match the conditions.
      if (wanted.stale_seconds > 0)
        return fail(Errc::unavailable,
                    "{} is {} here, but this target has no lease now and cannot tell whether that "
                    "is the newest version",
                    wanted.display(), etag);
      return fail(Errc::precondition_failed, "{} is now {}", wanted.display(), etag);
    case http::Condition::not_modified: {
      http::Response unchanged(304);
      unchanged.set("ETag", etag).set("Last-Modified", http::http_date(modified_seconds(record)));
      if (wanted.stale_seconds > 0)
        unchanged.set("Tarn-Stale", std::to_string(wanted.stale_seconds));
      return std::optional(std::move(unchanged));
    }
    case http::Condition::proceed: break;
  }
  return std::optional<http::Response>();
}

namespace {

http::Response range_refusal(const http::Request& request, const ObjectRequest& wanted,
                             const io::ObjectRecord& record, bool several) {
  const auto& head = request.head();
  const Error error{Errc::range_not_satisfiable,
                    several ? "one range a request, please: several in one are not served"
                            : fmt::format("range '{}' cannot be had: the object has {} bytes",
                                          head.field("Range"), record.size)};
  http::Response response = http::error_response(request.exchange, error);
  response.set("Content-Range", fmt::format("bytes */{}", record.size));
  if (wanted.stale_seconds > 0) response.set("Tarn-Stale", std::to_string(wanted.stale_seconds));
  return response;
}

}  // namespace

RangeAnswer choose_range(const http::Request& request, const ObjectRequest& wanted,
                         const io::ObjectRecord& record) {
  using http::RangeVerdict;
  RangeAnswer out{.range = {0, record.size}, .response = http::Response(200)};
  const auto& head = request.head();
  if (head.field("Range").empty() ||
      !http::range_applies(head, record.etag(), modified_seconds(record)))
    return out;
  auto [verdict, part] = http::resolve_range(head.field("Range"), record.size);
  // AIStore's paths refuse several ranges; for plain ones the proxy asks for the whole.
  if (verdict == RangeVerdict::multiple && request.query().get("multirange") == "whole")
    verdict = RangeVerdict::whole;
  if (verdict == RangeVerdict::unsatisfiable || verdict == RangeVerdict::multiple) {
    out.refused = true;
    out.response = range_refusal(request, wanted, record, verdict == RangeVerdict::multiple);
  }
  if (verdict == RangeVerdict::partial) {
    out.range = part;
    out.response.status = 206;
    out.response.set("Content-Range", fmt::format("bytes {}-{}/{}", part.offset,
                                                  part.offset + part.length - 1, record.size));
  }
  return out;
}

}  // namespace tarn::target
