#include "target/object_fields.h"

#include "common/api/custom_metadata.h"
#include "common/api/download.h"
#include "common/base/encoding.h"
#include "common/http/error_response.h"

namespace tarn::target {

std::int64_t modified_seconds(const io::ObjectRecord& record) {
  return record.modified_ns / 1'000'000'000;
}

bool is_content_field(std::string_view key) {
  return key == "Content-Type" || key == "Content-Encoding" || api::is_reserved_key(key);
}

std::optional<ObjectChecksum> checksum_of(const io::ObjectRecord& record) {
  ObjectChecksum shown{"xxhash2", ""};
  for (const auto& [key, value] : record.custom) {
    if (key == api::kChecksumTypeKey) shown.type = value;
    if (key == api::kChecksumValueKey) shown.value = value;
  }
  if (shown.type == "none") return std::nullopt;
  if (shown.value.empty()) shown.value = hex64(record.xxh64);
  return shown;
}

void add_checksum_fields(http::Response& response, const io::ObjectRecord& record) {
  const auto checksum = checksum_of(record);
  if (!checksum) return;
  response.set("Ais-Checksum-Type", checksum->type).set("Ais-Checksum-Value", checksum->value);
}

api::CustomMetadata source_fields(const io::ObjectRecord& record) {
  api::CustomMetadata out;
  for (const auto& [key, value] : record.custom) {
    if (key == api::kSourceKey) out.emplace_back("source", value);
    if (key == api::kSourceTagKey) out.emplace_back("ETag", value);
    if (key == api::kLinkKey) out.emplace_back("orig_url", value);
  }
  return out;
}

void add_custom_fields(http::Response& response, const io::ObjectRecord& record) {
  for (const auto& [key, value] : record.custom)
    if (!is_content_field(key)) response.set("Ais-Custom-Md", fmt::format("{}={}", key, value));
  for (const auto& [key, value] : source_fields(record))
    response.set("Ais-Custom-Md", fmt::format("{}={}", key, value));
}

namespace {

void add_record_fields(http::Response& response, const io::ObjectRecord& record) {
  std::string_view type = http::kBytes;
  for (const auto& [key, value] : record.custom)
    if (key == "Content-Type") type = value;
  response.set("Content-Type", type);
  for (const auto& [key, value] : record.custom)
    if (key == "Content-Encoding") response.set(key, value);
  response.set("ETag", record.etag())
      .set("Last-Modified", http::http_date(modified_seconds(record)))
      .set("Accept-Ranges", "bytes");
  add_checksum_fields(response, record);
  response.set("Ais-Version", std::to_string(record.version))
      .set("Ais-Atime", std::to_string(record.modified_ns))
      .set("X-Content-Type-Options", "nosniff");
  add_custom_fields(response, record);
}

}  // namespace

void add_object_fields(http::Response& response, const ObjectRequest& wanted,
                       const io::ObjectRecord& record) {
  add_record_fields(response, record);
  if (wanted.stale_seconds > 0) response.set("Tarn-Stale", std::to_string(wanted.stale_seconds));
}

std::string object_field_lines(const io::ObjectRecord& record) {
  http::Response response;
  add_record_fields(response, record);
  std::string lines;
  for (const http::Field& field : response.fields)
    http::append_field(lines, field.name, field.value);
  return lines;
}

Result<std::optional<http::Response>> judge_conditions(const http::RequestHead& head,
                                                       const ObjectRequest& wanted,
                                                       const io::ObjectRecord& record) {
  if (!http::has_conditions(head)) return std::optional<http::Response>();
  const std::string etag = record.etag();
  switch (http::check_read_conditions(head, etag, modified_seconds(record))) {
    case http::Condition::failed:
      // It may be what was asked for elsewhere.
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
