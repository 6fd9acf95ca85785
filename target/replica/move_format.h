#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "common/base/encoding.h"
#include "common/io/object_attribute.h"
#include "target/drive/open_object.h"

namespace tarn::target {

// Messages between targets about versions. Pure.

// The body of a copy: move_copy.h has the grammar.

[[nodiscard]] constexpr std::array<char, 4> little_endian(std::uint32_t value) {
  return {static_cast<char>(value), static_cast<char>(value >> 8U), static_cast<char>(value >> 16U),
          static_cast<char>(value >> 24U)};
}
[[nodiscard]] constexpr std::uint32_t from_little_endian(const std::array<char, 4>& bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8U | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

/// Length and attribute: what goes before the blocks.
[[nodiscard]] inline std::string copy_prelude(const io::ObjectAttribute& attribute) {
  const std::string bytes = io::encode(attribute);
  const auto length = little_endian(static_cast<std::uint32_t>(bytes.size()));
  return std::string(length.data(), length.size()) + bytes;
}
/// Bytes of the whole body for an object whose file has `file_bytes` bytes.
[[nodiscard]] inline std::uint64_t copy_length(const std::string& prelude,
                                               std::uint64_t file_bytes) {
  return prelude.size() + blocks_of(file_bytes) * sizeof(std::uint32_t) + file_bytes;
}

/// A generation in a query: "map.incarnation.counter", as decimals.
[[nodiscard]] inline std::string generation_text(const Generation& generation) {
  return fmt::format("{}.{}.{}", generation.map_version, generation.incarnation,
                     generation.counter);
}
/// Returns nothing for another text.
[[nodiscard]] inline std::optional<Generation> parse_generation(std::string_view text) {
  std::array<std::uint64_t, 3> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto dot = text.find('.');
    if ((dot == std::string_view::npos) != (i + 1 == numbers.size())) return std::nullopt;
    const auto number = parse_u64(text.substr(0, dot));
    if (!number) return std::nullopt;
    numbers[i] = *number;
    text.remove_prefix(dot == std::string_view::npos ? text.size() : dot + 1);
  }
  return Generation{numbers[0], numbers[1], numbers[2]};
}

}  // namespace tarn::target
