#include "target/drive/record_fields.h"

#include "common/api/download.h"
#include "common/base/encoding.h"

namespace tarn::target {

std::int64_t modified_seconds(const io::ObjectRecord& record) {
  return record.modified_ns / 1'000'000'000;
}

bool is_content_field(std::string_view key) {
  return key == "Content-Type" || key == "Content-Encoding" || api::is_reserved_key(key);
}

Result<api::CustomMetadata> with_change(api::CustomMetadata old, const MetadataChange& change) {
  if (change.replaces)
    std::erase_if(old, [](const auto& pair) { return !is_content_field(pair.first); });
  api::CustomMetadata out = api::merged(std::move(old), change.pairs);
  TRY_OK(api::check_custom_metadata(out));
  return out;
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

std::string object_field_lines(const io::ObjectRecord& record) {
  http::Response response;
  add_record_fields(response, record);
  std::string lines;
  for (const http::Field& field : response.fields)
    http::append_field(lines, field.name, field.value);
  return lines;
}

}  // namespace tarn::target
