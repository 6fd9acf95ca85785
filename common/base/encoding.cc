#include "common/base/encoding.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/core.h>

namespace tarn {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kBase64Url =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append64(std::string& out, std::string_view bytes, std::string_view alphabet, bool pad) {
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - i);
    unsigned group = byte_at(bytes, i) << 16;
    if (have > 1) group |= byte_at(bytes, i + 1) << 8;
    if (have > 2) group |= byte_at(bytes, i + 2);
    for (std::size_t k = 0; k <= have; ++k) out += alphabet[(group >> (18 - 6 * k)) & 63];
    if (pad) out.append(3 - have, '=');
  }
}

std::string encode64(std::string_view bytes, std::string_view alphabet, bool pad) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  append64(out, bytes, alphabet, pad);
  return out;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr std::array<bool, 256> kUnreserved = [] {
  std::array<bool, 256> table{};
  for (unsigned c = 0; c < table.size(); ++c)
    table[c] = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.' || c == '_' || c == '~';
  return table;
}();
bool is_unreserved(char c) { return kUnreserved[static_cast<unsigned char>(c)]; }

}  // namespace

std::string hex(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    out += kHexDigits[byte_at(bytes, i) >> 4];
    out += kHexDigits[byte_at(bytes, i) & 15];
  }
  return out;
}

std::string hex64(std::uint64_t value) {
  std::string out(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) out[i] = kHexDigits[value & 15];
  return out;
}

std::optional<std::string> unhex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_value(text[i]);
    const int low = hex_value(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

std::string base64(std::string_view bytes) { return encode64(bytes, kBase64, true); }
std::string base64url(std::string_view bytes) { return encode64(bytes, kBase64Url, false); }
void append_base64url(std::string& out, std::string_view bytes) {
  append64(out, bytes, kBase64Url, false);
}

std::optional<std::string> unbase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    std::size_t have = 4;
    if (last && text[i + 3] == '=') have = text[i + 2] == '=' ? 2 : 3;
    unsigned group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t value = k < have ? kBase64.find(text[i + k]) : 0;
      if (value == std::string_view::npos) return std::nullopt;
      group = group << 6 | static_cast<unsigned>(value);
    }
    if ((have == 2 && (group & 0xFFFF) != 0) || (have == 3 && (group & 0xFF) != 0))
      return std::nullopt;
    for (std::size_t k = 0; k + 1 < have; ++k)
      out += static_cast<char>((group >> (16 - 8 * k)) & 255);
  }
  return out;
}

std::string percent_encode(std::string_view bytes, std::string_view keep) {
  std::string out;
  append_percent_encoded(out, bytes, keep);
  return out;
}

void append_percent_encoded(std::string& out, std::string_view bytes, std::string_view keep) {
  // `keep` has a few bytes: memchr, which find() would call, takes longer to begin.
  const auto stays = [keep](char c) {
    return is_unreserved(c) ||
           std::any_of(keep.begin(), keep.end(), [c](char k) { return k == c; });
  };
  while (true) {
    const auto* const stop = std::find_if_not(bytes.begin(), bytes.end(), stays);
    const auto run = static_cast<std::size_t>(stop - bytes.begin());
    out.append(bytes, 0, run);
    if (run == bytes.size()) return;
    const auto value = static_cast<unsigned char>(*stop);
    out += '%';
    out += "0123456789ABCDEF"[value >> 4];
    out += "0123456789ABCDEF"[value & 15];
    bytes.remove_prefix(run + 1);
  }
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  const auto changes = [=](char c) { return c == '%' || (plus_is_space && c == '+'); };
  if (std::none_of(text.begin(), text.end(), changes)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::optional<std::uint64_t> parse_u64(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_utf8(std::string_view text) noexcept {
  std::size_t i = 0;
  while (i < text.size()) {
    const unsigned first = byte_at(text, i);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || i + length > text.size()) return false;
    unsigned point = first & (0xFFU >> (length + 1));
    for (std::size_t k = 1; k < length; ++k) {
      const unsigned next = byte_at(text, i + k);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    constexpr std::array<unsigned, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
    if (point < kSmallest[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
      return false;
    i += length;
  }
  return true;
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

bool iequals(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const bool readable = is_utf8(text);
  const auto is_c1 = [&](std::size_t at) {  // 0xC2 0x80 to 0xC2 0x9F
    return text[at] == '\xc2' && at + 1 < text.size() &&
           static_cast<unsigned char>(text[at + 1]) < 0xa0;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool in_c1 = readable && (is_c1(i) || (i > 0 && is_c1(i - 1)));
    if (byte < 0x20 || byte == 0x7f || in_c1 || (byte >= 0x80 && !readable))
      out += fmt::format("\\x{:02x}", byte);
    else
      out += text[i];
  }
  return out;
}

std::string_view trim(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace tarn
