#include "common/io/object_attribute.h"

#include <array>
#include <cerrno>
#include <sys/xattr.h>

#include "common/base/encoding.h"
#include "common/base/hash.h"

namespace tarn::io {
namespace {

constexpr char kRecordFormat = 1;
constexpr char kAttributeFormat = 1;

class Writer {
 public:
  void byte(char value) { out_ += value; }
  /// LEB128: seven bits a byte, least significant first.
  void number(std::uint64_t value) {
    while (value >= 0x80) {
      out_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    out_ += static_cast<char>(value);
  }
  void fixed64(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) out_ += static_cast<char>(value >> (8 * i));
  }
  void text(std::string_view value) {
    number(value.size());
    out_ += value;
  }
  std::string finish() {
    const std::uint32_t crc = crc32c(out_);
    for (int i = 0; i < 4; ++i) out_ += static_cast<char>(crc >> (8 * i));
    return std::move(out_);
  }

 private:
  std::string out_;
};

/// Reads what Writer wrote; after the first mistake everything is zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) {
    if (bytes.size() < 4) {
      ok_ = false;
      return;
    }
    rest_ = bytes.substr(0, bytes.size() - 4);
    std::uint32_t stored = 0;
    for (std::size_t i = 0; i < 4; ++i)
      stored |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[rest_.size() + i]))
                << (8 * i);
    ok_ = stored == crc32c(rest_);
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool done() const { return ok_ && rest_.empty(); }
  unsigned char byte() {
    if (rest_.empty()) ok_ = false;
    if (!ok_) return 0;
    const auto value = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const unsigned char next = byte();
      value |= static_cast<std::uint64_t>(next & 0x7F) << shift;
      if (next < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  std::uint64_t fixed64() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= static_cast<std::uint64_t>(byte()) << (8 * i);
    return value;
  }
  std::string text() {
    const std::uint64_t size = number();
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

void write_record(Writer& out, const ObjectRecord& record) {
  out.byte(kRecordFormat);
  out.byte(static_cast<char>(record.kind));
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

Result<ObjectRecord> read_record(Reader& in) {
  ObjectRecord record;
  if (in.byte() != kRecordFormat) return fail(Errc::corrupt, "object record: unknown format");
  const unsigned char kind = in.byte();
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
  Writer out;
  write_record(out, record);
  return out.finish();
}

Result<ObjectRecord> decode_record(std::string_view bytes) {
  Reader in(bytes);
  if (!in.ok()) return fail(Errc::corrupt, "object record: checksum is wrong");
  TRY(ObjectRecord record, read_record(in));
  if (!in.done()) return fail(Errc::corrupt, "object record: bytes left over");
  return record;
}

std::string encode(const ObjectAttribute& attribute) {
  Writer out;
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
  Reader in(bytes);
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
