#include "ec/slice_format.h"

#include <array>
#include <cstring>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/hash.h"
#include "common/base/packed.h"
#include "common/base/random.h"

namespace tarn::ec {
namespace {

constexpr std::uint8_t kSliceIdFormat = 1;
constexpr std::uint8_t kLabelFormat = 1;
constexpr std::uint8_t kBlockFormat = 1;
constexpr std::uint32_t kBlockMagic = 0x4B4C4254;  // "TBLK"
constexpr std::string_view kLabelMagic = "TARNSLC\n";
constexpr std::size_t kLabelEndBytes = 4 + kLabelMagic.size();

// Little-endian.
template <class Number>
void put(std::span<std::byte> out, std::size_t at, Number value) {
  std::array<std::byte, sizeof value> bytes{};
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes[i] = static_cast<std::byte>(value >> (8 * i) & 0xFFU);
  std::memcpy(&out[at], bytes.data(), sizeof value);
}

template <class Number>
Number get(std::span<const std::byte> in, std::size_t at) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value = static_cast<Number>(value | static_cast<Number>(in[at + i]) << (8 * i));
  return value;
}

/// The last bytes of a block, but for the checksum after them.
struct Footer {
  std::uint64_t set = 0;
  std::uint64_t stripe = 0;
  std::uint32_t unit_bytes = 0;
  /// Slice, k, m, format; the first in the lowest byte.
  std::uint32_t code = 0;
  std::uint32_t magic = kBlockMagic;

  bool operator==(const Footer&) const = default;
};

Footer footer_of(const SliceId& slice, std::uint64_t stripe, std::size_t unit_bytes) {
  const auto code = slice.index | slice.geometry.k << 8U | slice.geometry.m << 16U |
                    std::size_t{kBlockFormat} << 24U;
  return {raw(slice.set), stripe, static_cast<std::uint32_t>(unit_bytes),
          static_cast<std::uint32_t>(code)};
}

Footer read_footer(std::span<const std::byte> block) {
  const auto bytes = block.last(kFooterBytes);
  return {get<std::uint64_t>(bytes, 0), get<std::uint64_t>(bytes, 8), get<std::uint32_t>(bytes, 16),
          get<std::uint32_t>(bytes, 20), get<std::uint32_t>(bytes, 24)};
}

void write_footer(std::span<std::byte> block, const Footer& footer) {
  const auto bytes = block.last(kFooterBytes);
  put(bytes, 0, footer.set);
  put(bytes, 8, footer.stripe);
  put(bytes, 16, footer.unit_bytes);
  put(bytes, 20, footer.code);
  put(bytes, 24, footer.magic);
}

/// Describes, for people, the block that a footer names.
std::string describe(const Footer& footer) {
  if (footer.magic != kBlockMagic) return "no block of a slice";
  if (footer.code >> 24U != kBlockFormat)
    return fmt::format("a block of format {}", footer.code >> 24U);
  return fmt::format("block {} of slice {} of set {:016x} ({}+{}, {} bytes)", footer.stripe,
                     footer.code & 0xFFU, footer.set, footer.code >> 8U & 0xFFU,
                     footer.code >> 16U & 0xFFU, footer.unit_bytes);
}

void write_slice_id(PackedWriter& out, const SliceId& slice) {
  out.byte(kSliceIdFormat);
  out.fixed64(raw(slice.set));
  out.byte(static_cast<std::uint8_t>(slice.geometry.k));
  out.byte(static_cast<std::uint8_t>(slice.geometry.m));
  out.byte(static_cast<std::uint8_t>(slice.index));
  out.number(slice.geometry.block_bytes);
}

Result<SliceId> read_slice_id(PackedReader& in) {
  const std::uint8_t format = in.byte();
  if (format != kSliceIdFormat) return fail(Errc::corrupt, "slice: unknown format {}", format);
  SliceId slice;
  slice.set = SetId(in.fixed64());
  slice.geometry.k = in.byte();
  slice.geometry.m = in.byte();
  slice.index = in.byte();
  slice.geometry.block_bytes = in.number();
  if (const auto valid = check(slice.geometry); !valid)
    return fail(Errc::corrupt, "slice: {}", valid.error().message);
  if (slice.index >= slice.geometry.slices())
    return fail(Errc::corrupt, "slice: number {} of {}", slice.index, slice.geometry.slices());
  return slice;
}

Result<Label> read_fields(PackedReader& in) {
  const std::uint8_t format = in.byte();
  if (format != kLabelFormat) return fail(Errc::corrupt, "slice label: unknown format {}", format);
  Label label;
  TRY(label.slice, read_slice_id(in));
  label.bucket_id = BucketId(in.fixed64());
  label.provider = in.text();
  label.ns_uuid = in.text();
  label.ns_name = in.text();
  label.bucket = in.text();
  label.object = in.text();
  label.generation.map_version = in.number();
  label.generation.incarnation = in.number();
  label.generation.counter = in.number();
  label.object_bytes = in.number();
  label.xxh64 = in.fixed64();
  if (!in.done()) return fail(Errc::corrupt, "slice label: fields cut short or left over");
  return label;
}

}  // namespace

SetId new_set_id() { return SetId(random_u64()); }

void seal_block(std::span<std::byte> block, const SliceId& slice, std::uint64_t stripe) {
  TARN_CHECK(block.size() >= kFooterBytes);
  write_footer(block, footer_of(slice, stripe, block.size() - kFooterBytes));
  const std::size_t covered = block.size() - 4;
  put(block, covered, crc32c(std::span<const std::byte>(block.first(covered))));
}

Status check_block(std::span<const std::byte> block, const SliceId& slice, std::uint64_t stripe) {
  if (!SAFETY("safety.slice_blocks_checked")) return {};
  if (block.size() < kFooterBytes)
    return fail(Errc::corrupt, "block {} of slice {}: {} bytes are no block", stripe, slice.index,
                block.size());
  const std::size_t covered = block.size() - 4;
  if (get<std::uint32_t>(block, covered) != crc32c(block.first(covered)))
    return fail(Errc::corrupt, "block {} of slice {}: checksum is wrong", stripe, slice.index);
  const Footer footer = read_footer(block);
  Footer wanted = footer_of(slice, stripe, block.size() - kFooterBytes);
  if (!SAFETY("safety.slice_index")) wanted.code = (wanted.code & ~0xffU) | (footer.code & 0xffU);
  if (footer != wanted)
    return fail(Errc::corrupt, "here should be {}, and is {}", describe(wanted), describe(footer));
  return {};
}

Result<std::string> encode(const Label& label) {
  PackedWriter out;
  out.byte(kLabelFormat);
  write_slice_id(out, label.slice);
  out.fixed64(raw(label.bucket_id));
  for (const std::string* text :
       {&label.provider, &label.ns_uuid, &label.ns_name, &label.bucket, &label.object})
    out.text(*text);
  out.number(label.generation.map_version);
  out.number(label.generation.incarnation);
  out.number(label.generation.counter);
  out.number(label.object_bytes);
  out.fixed64(label.xxh64);
  std::string bytes = out.finish();
  if (bytes.size() + kLabelEndBytes > kLabelBytesMax)
    return fail(Errc::invalid_argument, "names of {} bytes are too long for a slice", bytes.size());
  const auto size = static_cast<std::uint32_t>(bytes.size());
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(size >> (8 * i));
  return bytes.append(kLabelMagic);
}

Result<Label> read_label(std::span<const std::byte> tail, std::uint64_t file_bytes) {
  if (tail.size() > file_bytes || tail.size() < kLabelEndBytes)
    return fail(Errc::corrupt, "no slice: the file has {} bytes", file_bytes);
  const std::string_view text(reinterpret_cast<const char*>(tail.data()), tail.size());
  if (!text.ends_with(kLabelMagic))
    return fail(Errc::corrupt, "the file does not end like a slice: it was cut, or is none");
  const std::size_t before_end = text.size() - kLabelEndBytes;
  const std::size_t size = get<std::uint32_t>(tail, before_end);
  if (size > before_end)
    return fail(Errc::corrupt, "slice label: {} bytes announced, {} are there", size, before_end);
  PackedReader in(text.substr(before_end - size, size));
  if (!in.ok()) return fail(Errc::corrupt, "slice label: checksum is wrong");
  TRY(Label label, read_fields(in));
  const auto layout = Layout::of(label.slice.geometry, label.object_bytes);
  if (!layout) return fail(Errc::corrupt, "slice label: {}", layout.error().message);
  const std::uint64_t wanted = layout->blocks_bytes() + size + kLabelEndBytes;
  if (wanted != file_bytes)
    return fail(Errc::corrupt, "slice {} of {}: the file has {} bytes instead of {}",
                label.slice.index, label.object, file_bytes, wanted);
  return label;
}

}  // namespace tarn::ec
