#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tarn {

/// Lower-case hexadecimal of `bytes`, and of a 64-bit number with all of its 16 digits.
[[nodiscard]] std::string hex(std::string_view bytes);
[[nodiscard]] std::string hex64(std::uint64_t value);
/// The bytes of `text`; none if a character is no hex digit or the length is odd.
[[nodiscard]] std::optional<std::string> unhex(std::string_view text);

/// RFC 4648 base64 with padding, and the URL-safe alphabet without.
[[nodiscard]] std::string base64(std::string_view bytes);
[[nodiscard]] std::string base64url(std::string_view bytes);
void append_base64url(std::string& out, std::string_view bytes);
/// Strict decoding: fails for characters outside the alphabet, missing padding or bits left over.
[[nodiscard]] std::optional<std::string> unbase64(std::string_view text);

/// Percent-encodes everything but unreserved characters (RFC 3986) and those in `keep`.
[[nodiscard]] std::string percent_encode(std::string_view bytes, std::string_view keep = "");
void append_percent_encoded(std::string& out, std::string_view bytes, std::string_view keep = "");
/// Decodes %XX once; `plus_is_space` for query strings of forms. Fails for a malformed escape.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text,
                                                        bool plus_is_space = false);

/// The whole of `text` as a number: digits only, no sign, no space, within the type.
[[nodiscard]] std::optional<std::uint64_t> parse_u64(std::string_view text);

/// True if `text` is well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF).
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// `text` for one line of a log or a terminal: no name forges a line or moves a cursor. Control
/// characters (C0, DEL, C1) become \xNN, and so do all bytes beyond ASCII in a text that is no
/// UTF-8.
[[nodiscard]] std::string printable(std::string_view text);

/// ASCII only, as HTTP needs it.
[[nodiscard]] std::string to_lower(std::string_view text);
[[nodiscard]] bool iequals(std::string_view a, std::string_view b) noexcept;
[[nodiscard]] std::string_view trim(std::string_view text) noexcept;

}  // namespace tarn
