#include "common/io/object_attribute.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <limits>
#include <sys/xattr.h>

#include "common/api/custom_metadata.h"
#include "common/base/packed.h"

namespace tarn::io {
namespace {

constexpr std::uint8_t kPlainFormat = 1;  // of a record without coding or slice, for ever
constexpr std::uint8_t kCodedFormat = 2;
constexpr std::uint8_t kAttributeFormat = 1;
constexpr std::size_t kKernelAttributeBytesMax = 64UL * 1024;
// As ec/layout.h has them.
constexpr std::uint32_t kBlockBytesMin = 512;
constexpr std::uint32_t kBlockBytesMax = 64 * 1024;

using Kind = ObjectRecord::Kind;

void write_generation(PackedWriter& out, const Generation& generation) {
  out.number(generation.map_version);
  out.number(generation.incarnation);
  out.number(generation.counter);
}

Generation read_generation(PackedReader& in) {
  Generation generation;
  generation.map_version = in.number();
  generation.incarnation = in.number();
  generation.counter = in.number();
  return generation;
}

/// A number that fits; else the greatest, which is none that a field may have.
std::uint32_t read_small(PackedReader& in) {
  const std::uint64_t number = in.number();
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(number, std::numeric_limits<std::uint32_t>::max()));
}

/// The ids that holders have, in the order of their first use, and for each holder its place among
/// them, from 1 on; 0 for an empty id.
class HolderTable {
 public:
  std::uint8_t place_of(const std::string& id) {
    if (id.empty()) return 0;
    const auto at = std::find(ids_.begin(), ids_.end(), id);
    const auto place = static_cast<std::uint8_t>(at - ids_.begin() + 1);
    if (at == ids_.end()) ids_.push_back(id);
    return place;
  }
  [[nodiscard]] const std::vector<std::string>& ids() const { return ids_; }

 private:
  std::vector<std::string> ids_;
};

void write_coding(PackedWriter& out, const Coding& coding) {
  out.byte(static_cast<std::uint8_t>(coding.layout));
  out.byte(coding.k);
  out.byte(coding.m);
  out.number(coding.block_bytes);
  out.fixed64(coding.set);
  write_generation(out, coding.written);
  HolderTable table;
  std::vector<std::uint8_t> places;
  places.reserve(coding.holders.size() + 1);
  for (const std::string& id : coding.holders) places.push_back(table.place_of(id));
  places.push_back(table.place_of(coding.full_copy));
  out.number(table.ids().size());
  for (const std::string& id : table.ids()) out.text(id);
  for (const std::uint8_t place : places) out.byte(place);
}

/// The holders of the slices, then that of the full copy. Only the output of write_coding() is
/// taken: the same holders are always the same bytes.
Result<std::vector<std::string>> read_holders(PackedReader& in, std::size_t count) {
  const std::uint64_t ids = in.number();
  if (ids > count) return fail(Errc::corrupt, "coding: {} ids of {} holders", ids, count);
  std::vector<std::string> table;
  for (std::uint64_t i = 0; i < ids; ++i) {
    std::string id = in.text();
    if (id.empty() || std::find(table.begin(), table.end(), id) != table.end())
      return fail(Errc::corrupt, "coding: id {} is empty or there twice", i + 1);
    table.push_back(std::move(id));
  }
  std::vector<std::string> holders;
  std::size_t used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t place = in.byte();
    if (place > std::min(used + 1, table.size()))
      return fail(Errc::corrupt, "coding: holder {} is id {} of {}", i, place, table.size());
    used = std::max<std::size_t>(used, place);
    holders.push_back(place == 0 ? std::string() : table[place - 1]);
  }
  if (used != table.size())
    return fail(Errc::corrupt, "coding: {} of {} ids are used", used, table.size());
  return holders;
}

Result<Coding> read_coding(PackedReader& in) {
  Coding coding;
  coding.layout = static_cast<Coding::Layout>(in.byte());
  coding.k = in.byte();
  coding.m = in.byte();
  coding.block_bytes = read_small(in);
  coding.set = in.fixed64();
  coding.written = read_generation(in);
  const std::size_t slices = std::size_t{coding.k} + coding.m;
  if (slices > kSlicesMax) return fail(Errc::corrupt, "coding: {} slices", slices);
  TRY(coding.holders, read_holders(in, slices + 1));
  coding.full_copy = std::move(coding.holders.back());
  coding.holders.pop_back();
  TRY_OK(check(coding));
  return coding;
}

void write_slice(PackedWriter& out, const Slice& slice) {
  out.fixed64(slice.set);
  out.byte(slice.k);
  out.byte(slice.m);
  out.byte(slice.index);
  out.number(slice.block_bytes);
  out.number(slice.file_bytes);
  write_generation(out, slice.written);
}

Result<Slice> read_slice(PackedReader& in) {
  Slice slice;
  slice.set = in.fixed64();
  slice.k = in.byte();
  slice.m = in.byte();
  slice.index = in.byte();
  slice.block_bytes = read_small(in);
  slice.file_bytes = in.number();
  slice.written = read_generation(in);
  TRY_OK(check(slice));
  return slice;
}

/// A tombstone never has a tail, whatever its origin.
bool has_coding(const ObjectRecord& record) {
  return record.kind == Kind::object && record.coding.has_value();
}
bool has_slice(const ObjectRecord& record) {
  return record.kind == Kind::slice && record.slice.has_value();
}

void write_record(PackedWriter& out, const ObjectRecord& record) {
  out.byte(has_coding(record) || has_slice(record) ? kCodedFormat : kPlainFormat);
  out.byte(static_cast<std::uint8_t>(record.kind));
  write_generation(out, record.generation);
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
  if (has_coding(record)) write_coding(out, *record.coding);
  if (has_slice(record)) write_slice(out, *record.slice);
}

/// Reads the fields after the pairs in a record of format 2.
Status read_tail(PackedReader& in, ObjectRecord& record) {
  if (!in.ok()) return {};
  if (record.kind == Kind::object) {
    TRY(record.coding, read_coding(in));
    return {};
  }
  TRY(record.slice, read_slice(in));
  if (record.version != 0 || !record.custom.empty())
    return fail(Errc::corrupt, "object record: a slice with a version or metadata");
  if (record.slice->index == kFullCopy && record.slice->file_bytes != record.size)
    return fail(Errc::corrupt, "object record: a full copy of {} bytes of an object of {}",
                record.slice->file_bytes, record.size);
  return {};
}

Result<ObjectRecord> read_record(PackedReader& in) {
  ObjectRecord record;
  const std::uint8_t format = in.byte();
  if (format != kPlainFormat && format != kCodedFormat)
    return fail(Errc::corrupt, "object record: unknown format {}", format);
  const bool plain = format == kPlainFormat;
  const std::uint8_t kind = in.byte();
  // Tombstones have the one format, slices the other.
  if (kind != 1 && kind != (plain ? 2 : 3))
    return fail(Errc::corrupt, "object record: unknown kind {} in format {}", kind, format);
  record.kind = static_cast<Kind>(kind);
  record.generation = read_generation(in);
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
  if (!plain) TRY_OK(read_tail(in, record));
  if (!in.ok()) return fail(Errc::corrupt, "object record: checksum or length is wrong");
  return record;
}

/// Success if slices can be made so.
Status check_code(std::size_t k, std::size_t m, std::uint32_t block_bytes) {
  if (k < 1 || m < 1 || k + m > kSlicesMax)
    return fail(Errc::corrupt, "{}+{} slices: both are to be 1 or more, {} together at most", k, m,
                kSlicesMax);
  if (!std::has_single_bit(block_bytes) || block_bytes < kBlockBytesMin ||
      block_bytes > kBlockBytesMax)
    return fail(Errc::corrupt, "blocks of {} bytes", block_bytes);
  return {};
}

}  // namespace

std::string FileName::path() const { return fmt::format("data/{:08x}/{:016x}", directory, id); }
std::string FileName::directory_path() const { return fmt::format("data/{:08x}", directory); }

Status check(const Coding& coding) {
  if (coding.layout != Coding::Layout::striped && coding.layout != Coding::Layout::whole)
    return fail(Errc::corrupt, "coding: unknown layout {}", static_cast<int>(coding.layout));
  TRY_OK(check_code(coding.k, coding.m, coding.block_bytes));
  const std::size_t slices = std::size_t{coding.k} + coding.m;
  if (coding.holders.size() != slices)
    return fail(Errc::corrupt, "coding: {} holders of {} slices", coding.holders.size(), slices);
  return {};
}

Status check(const Slice& slice) {
  TRY_OK(check_code(slice.k, slice.m, slice.block_bytes));
  if (slice.index != kFullCopy && slice.index >= slice.k + slice.m)
    return fail(Errc::corrupt, "slice {} of {} slices", slice.index, slice.k + slice.m);
  return {};
}

std::string ObjectRecord::etag() const {
  for (const auto& [key, value] : custom)
    if (key == api::kSourceTagKey) return value;
  return fmt::format("\"{:016x}-{}\"", xxh64, size);
}

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
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): zeros take longer than the call
  std::array<char, kKernelAttributeBytesMax> buffer;
  const ssize_t got = ::fgetxattr(fd, kAttributeName, buffer.data(), buffer.size());
  if (got < 0 && errno == ENODATA)
    return fail(Errc::not_found, "{} has no attribute {}", path, kAttributeName);
  if (got < 0) return fail_errno(errno, fmt::format("read attribute of {}", path));
  return decode_attribute(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
}

}  // namespace tarn::io
