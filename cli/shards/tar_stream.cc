#include "cli/shards/tar_stream.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

// Extended headers hold names and times; real ones are below a few KiB.
constexpr std::uint64_t kExtendedBytesMax = 1U << 20U;

// Fields of a header: offset and length (POSIX ustar; GNU where it differs).
struct Field {
  std::size_t at;
  std::size_t bytes;
};
constexpr Field kTarStreamName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kChecksum{148, 8};
constexpr Field kType{156, 1};
constexpr Field kLink{157, 100};
constexpr Field kMagic{257, 6};
constexpr Field kPrefix{345, 155};
constexpr std::size_t kGnuIsExtended = 482;     // of a header of type 'S'
constexpr std::size_t kGnuMapIsExtended = 504;  // of a block of its map

std::string_view field(std::span<const char> block, Field which) {
  const std::string_view whole(block.data() + which.at, which.bytes);
  return whole.substr(0, whole.find('\0'));
}

/// Octal digits between blanks, or base 256 when the first bit is set.
std::optional<std::uint64_t> number(std::span<const char> block, Field which) {
  const auto first = static_cast<unsigned char>(block[which.at]);
  std::uint64_t value = 0;
  if ((first & 0x80U) != 0) {
    if (first != 0x80) return std::nullopt;  // negative, or far beyond 2^64
    for (std::size_t i = 1; i < which.bytes; ++i) {
      if (value >> 56U != 0) return std::nullopt;
      value = value << 8U | static_cast<unsigned char>(block[which.at + i]);
    }
    return value;
  }
  const auto digits = trim(field(block, which));
  for (const char c : digits) {
    if (c < '0' || c > '7' || value >> 61U != 0) return std::nullopt;
    value = value << 3U | static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

/// The sum of all bytes, its own field counted as blanks; old programs summed signed ones.
bool checksum_matches(std::span<const char> block) {
  const auto stated = number(block, kChecksum);
  if (!stated) return false;
  std::int64_t unsigned_sum = 0;
  std::int64_t signed_sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.bytes;
    unsigned_sum += own ? ' ' : static_cast<unsigned char>(block[i]);
    signed_sum += own ? ' ' : static_cast<signed char>(block[i]);
  }
  const auto sum = static_cast<std::int64_t>(*stated);
  return sum == unsigned_sum || sum == signed_sum;
}

std::optional<std::uint64_t> tar_stream_padded(std::uint64_t bytes) {
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  return (bytes + kTarBlock - 1) / kTarBlock * kTarBlock;
}

bool has_data(char type) { return type < '1' || type > '6'; }

/// "30 mtime=1700000000.123456789\n" and so on; the number counts its own record.
Result<std::map<std::string, std::string>> parse_pax(std::string_view text) {
  std::map<std::string, std::string> out;
  while (!text.empty() && text.front() != '\0') {
    const auto blank = text.find(' ');
    const auto length = parse_u64(text.substr(0, blank));
    if (blank == std::string_view::npos || !length || *length <= blank + 1 ||
        *length > text.size() || text[*length - 1] != '\n')
      return fail(Errc::corrupt, "a malformed pax header");
    const auto record = text.substr(blank + 1, *length - blank - 2);
    const auto equals = record.find('=');
    if (equals == std::string_view::npos) return fail(Errc::corrupt, "a malformed pax header");
    out[std::string(record.substr(0, equals))] = record.substr(equals + 1);
    text.remove_prefix(*length);
  }
  return out;
}

std::string name_in(std::span<const char> block) {
  const auto name = field(block, kTarStreamName);
  const bool posix = std::memcmp(block.data() + kMagic.at, "ustar\0", kMagic.bytes) == 0;
  const auto prefix = posix ? field(block, kPrefix) : std::string_view();
  return prefix.empty() ? std::string(name) : fmt::format("{}/{}", prefix, name);
}

/// The program that unpacks a file that begins with `bytes`; empty if it is not a compressed file
/// (RFC 1952; RFC 8878, 3.1.1; xz 1.2.0, 2.1.1.1; bzip2's BZh; LZ4 frame format 1.6.2).
std::string_view tool_to_unpack(std::string_view bytes) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kMagics{
      {{"\x1f\x8b", "zcat"},
       {"\x28\xb5\x2f\xfd", "zstdcat"},
       {"\xfd"
        "7zXZ",
        "xzcat"},
       {"BZh", "bzcat"},
       {"\x04\x22\x4d\x18", "lz4cat"}}};
  for (const auto& [magic, tool] : kMagics)
    if (bytes.starts_with(magic)) return tool;
  return "";
}

std::string_view without_nul(std::string_view text) { return text.substr(0, text.find('\0')); }

}  // namespace

/// Content of the extended headers before a main header.
struct TarReader::Extended {
  std::string long_name;
  std::string long_link;
  std::map<std::string, std::string> pax;

  [[nodiscard]] const std::string* find(const char* key) const {
    const auto found = pax.find(key);
    return found == pax.end() ? nullptr : &found->second;
  }
};

/// False at the end of the stream, which must lie between blocks.
Result<bool> TarReader::read_block(Block& block) {
  std::size_t have = 0;
  while (have < block.size()) {
    TRY(const std::size_t got, read_(std::as_writable_bytes(std::span(block)).subspan(have)));
    if (got == 0) break;
    have += got;
  }
  const std::string_view tool = at_ == 0 ? tool_to_unpack({block.data(), have}) : "";
  if (have != 0 && have != block.size() && !tool.empty())
    return fail(Errc::corrupt,
                "the stream is no tar: it is compressed; unpack it first, e.g. with {}", tool);
  if (have != 0 && have != block.size())
    return fail(Errc::corrupt, "the tar stream is cut short at byte {}", at_ + have);
  at_ += have;
  return have != 0;
}

Result<std::string> TarReader::read_extended_body(std::uint64_t size) {
  if (size > kExtendedBytesMax)
    return fail(Errc::corrupt, "an extended header of {} bytes at byte {} of the tar stream", size,
                at_);
  std::string out;
  Block block{};
  for (std::uint64_t got = 0; got < size; got += kTarBlock) {
    TRY(const bool more, read_block(block));
    if (!more) return fail(Errc::corrupt, "the tar stream is cut short at byte {}", at_);
    out.append(block.data(), block.size());
  }
  return out;
}

Status TarReader::take_extended(char type, const Block& block, std::uint64_t size,
                                TarMember& member, Extended& extended) {
  TRY(const std::string body, read_extended_body(size));
  const auto text = std::string_view(body).substr(0, size);
  if (type == 'L') extended.long_name = without_nul(text);
  if (type == 'K') extended.long_link = without_nul(text);
  if (type == 'x') {
    TRY(extended.pax, parse_pax(text));
  }
  std::string& raw = type == 'g' ? globals_ : member.head;
  if (type == 'g') {
    TRY(const auto global, parse_pax(text));
    for (const char* key : {"path", "size", "linkpath", "GNU.sparse.name"})
      if (global.count(key) > 0)
        return fail(Errc::unsupported, "a global pax header with '{}' for every member", key);
    if (globals_.size() + body.size() > kExtendedBytesMax)
      return fail(Errc::corrupt, "more than {} bytes of global pax headers", kExtendedBytesMax);
  }
  raw.append(block.data(), block.size());
  raw += body;
  if (member.head.size() > 4 * kExtendedBytesMax)
    return fail(Errc::corrupt, "extended headers without a member at byte {}", at_);
  return {};
}

/// Blocks with more of a sparse file's map, while each announces one more.
Status TarReader::take_sparse_map(const Block& block, TarMember& member) {
  bool more = block[kGnuIsExtended] != '\0';
  while (more) {
    Block map{};
    TRY(const bool there, read_block(map));
    if (!there || member.head.size() > 64 * kExtendedBytesMax)
      return fail(Errc::corrupt, "the map of the sparse file '{}' has no end", member.name);
    member.head.append(map.data(), map.size());
    more = map[kGnuMapIsExtended] != '\0';
  }
  return {};
}

Status TarReader::finish_member(const Block& block, std::uint64_t size, TarMember& member,
                                const Extended& extended) {
  member.name = extended.long_name.empty() ? name_in(block) : extended.long_name;
  if (const auto* path = extended.find("path")) member.name = *path;
  if (const auto* path = extended.find("GNU.sparse.name")) member.name = *path;
  member.link = extended.long_link.empty() ? field(block, kLink) : extended.long_link;
  if (const auto* link = extended.find("linkpath")) member.link = *link;
  if (const auto* stated = extended.find("size")) {
    const auto parsed = parse_u64(*stated);
    if (!parsed) return fail(Errc::corrupt, "member '{}': a size of '{}'", member.name, *stated);
    size = *parsed;
  }
  if (member.type == '\0') member.type = member.name.ends_with('/') ? '5' : '0';
  if (member.type == 'M')
    return fail(Errc::unsupported,
                "member '{}' goes on from another volume: a multi-volume archive cannot be cut",
                member.name);
  const auto data = tar_stream_padded(has_data(member.type) ? size : 0);
  if (!data) return fail(Errc::corrupt, "member '{}': a size of {}", member.name, size);
  member.head.append(block.data(), block.size());
  if (member.type == 'S') {
    TRY_OK(take_sparse_map(block, member));
  }
  member.data = data_left_ = *data;
  return {};
}

Result<std::optional<TarMember>> TarReader::at_end(bool inside_member) const {
  if (at_ == 0) return fail(Errc::corrupt, "the tar stream is empty: did tar fail?");
  if (inside_member)
    return fail(Errc::corrupt, "the tar stream is cut short at byte {}, after an extended header",
                at_);
  if (!ended_)
    return fail(Errc::corrupt,
                "the tar stream ends at byte {} without an end marker: tar was interrupted", at_);
  return std::optional<TarMember>();
}

Result<std::optional<TarMember>> TarReader::next() {
  TarMember member;
  Extended extended;
  Block block{};
  while (true) {
    const std::uint64_t from = at_;
    TRY(const bool there, read_block(block));
    if (!there) return at_end(!member.head.empty());
    if (std::all_of(block.begin(), block.end(), [](char c) { return c == '\0'; })) {
      if (!member.head.empty()) return at_end(true);
      ended_ = true;
      continue;
    }
    if (!checksum_matches(block)) {
      const std::string_view tool = from == 0 ? tool_to_unpack({block.data(), block.size()}) : "";
      return fail(Errc::corrupt, "byte {} of the stream begins no tar header{}{}", from,
                  tool.empty() ? "" : ": it is compressed; unpack it first, e.g. with ", tool);
    }
    ended_ = false;
    const auto size = number(block, kSize);
    if (!size) return fail(Errc::corrupt, "a tar header without a size at byte {}", from);
    const char type = block[kType.at];
    if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
      TRY_OK(take_extended(type, block, *size, member, extended));
      continue;
    }
    member.type = type;
    TRY_OK(finish_member(block, *size, member, extended));
    return member;
  }
}

Result<std::size_t> TarReader::read_data(std::span<std::byte> into) {
  into = into.first(std::min<std::uint64_t>(into.size(), data_left_));
  if (into.empty()) return std::size_t{0};
  TRY(const std::size_t got, read_(into));
  at_ += got;
  if (got == 0) return fail(Errc::corrupt, "the tar stream is cut short at byte {}", at_);
  data_left_ -= got;
  return got;
}

std::string_view sample_key(std::string_view name) {
  const auto slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const auto dot = name.find('.', base);
  return dot == std::string_view::npos || dot == base ? name : name.substr(0, dot);
}

}  // namespace tarn::cli
