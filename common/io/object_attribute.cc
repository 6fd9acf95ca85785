#include "common/io/object_attribute.h"

#include <array>
#include <cerrno>
#include <sys/xattr.h>

#include "common/base/packed.h"

namespace tarn::io {
namespace {

constexpr std::uint8_t kRecordFormat = 1;
constexpr std::uint8_t kAttributeFormat = 1;

void write_record(PackedWriter& out, const ObjectRecord& record) {
  out.byte(kRecordFormat);
  out.byte(static_cast<std::uint8_t>(record.kind));
  out.number(record.generation.map_version);
  out.number(record.generation.incarnation);
  out.number(record.generation.counter);
  out.number(record.file.directory);
  out.fixed64(record.file.id);
  out.number(record.size);
  out.fixed64(record.xxh64);
  out.number(record.version);
  out.fixed64(static_cast<std::uint64_t>(record.modified_ns));
  out.number(record.custom.size());
  for (const auto& [key, value] : record.custom) {
    out.text(key);
    out.text(value);
  }
}

Result<ObjectRecord> read_record(PackedReader& in) {
  ObjectRecord record;
  if (in.byte() != kRecordFormat) return fail(Errc::corrupt, "object record: unknown format");
  const std::uint8_t kind = in.byte();
  if (kind != 1 && kind != 2) return fail(Errc::corrupt, "object record: unknown kind {}", kind);
  record.kind = static_cast<ObjectRecord::Kind>(kind);
  record.generation.map_version = in.number();
  record.generation.incarnation = in.number();
  record.generation.counter = in.number();
  record.file.directory = static_cast<std::uint32_t>(in.number());
  record.file.id = in.fixed64();
  record.size = in.number();
  record.xxh64 = in.fixed64();
  record.version = in.number();
  record.modified_ns = static_cast<std::int64_t>(in.fixed64());
  const std::uint64_t pairs = in.number();
  for (std::uint64_t i = 0; i < pairs && in.ok(); ++i) {
    std::string key = in.text();
    record.custom.emplace_back(std::move(key), in.text());
  }
  if (!in.ok()) return fail(Errc::corrupt, "object record: checksum or length is wrong");
  return record;
}

}  // namespace

std::string FileName::path() const { return fmt::format("data/{:08x}/{:016x}", directory, id); }
std::string FileName::directory_path() const { return fmt::format("data/{:08x}", directory); }

std::string ObjectRecord::etag() const { return fmt::format("\"{:016x}-{}\"", xxh64, size); }

std::string encode(const ObjectRecord& record) {
  PackedWriter out;
  write_record(out, record);
  return out.finish();
}

Result<ObjectRecord> decode_record(std::string_view bytes) {
  PackedReader in(bytes);
  if (!in.ok()) return fail(Errc::corrupt, "object record: checksum is wrong");
  TRY(ObjectRecord record, read_record(in));
  if (!in.done()) return fail(Errc::corrupt, "object record: bytes left over");
  return record;
}

std::string encode(const ObjectAttribute& attribute) {
  PackedWriter out;
  out.byte(kAttributeFormat);
  out.fixed64(raw(attribute.bucket_id));
  out.text(attribute.bucket.provider);
  out.text(attribute.bucket.ns_uuid);
  out.text(attribute.bucket.ns_name);
  out.text(attribute.bucket.name);
  out.text(attribute.name);
  write_record(out, attribute.record);
  return out.finish();
}

Result<ObjectAttribute> decode_attribute(std::string_view bytes) {
  PackedReader in(bytes);
  if (!in.ok()) return fail(Errc::corrupt, "attribute user.tarn: checksum is wrong");
  if (in.byte() != kAttributeFormat)
    return fail(Errc::corrupt, "attribute user.tarn: unknown format");
  ObjectAttribute attribute;
  attribute.bucket_id = BucketId(in.fixed64());
  attribute.bucket.provider = in.text();
  attribute.bucket.ns_uuid = in.text();
  attribute.bucket.ns_name = in.text();
  attribute.bucket.name = in.text();
  attribute.name = in.text();
  TRY(attribute.record, read_record(in));
  if (!in.done()) return fail(Errc::corrupt, "attribute user.tarn: bytes left over");
  return attribute;
}

Result<ObjectAttribute> read_attribute(int fd, std::string_view path) {
  std::array<char, 64 * 1024> buffer;
  const ssize_t got = ::fgetxattr(fd, kAttributeName, buffer.data(), buffer.size());
  if (got < 0 && errno == ENODATA)
    return fail(Errc::not_found, "{} has no attribute {}", path, kAttributeName);
  if (got < 0) return fail_errno(errno, fmt::format("read attribute of {}", path));
  return decode_attribute(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
}

}  // namespace tarn::io
