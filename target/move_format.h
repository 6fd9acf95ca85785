#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "common/io/object_attribute.h"
#include "target/open_object.h"

namespace tarn::target {

// The body of a copy between targets (move_copy.h has the grammar). Pure.

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
/// Bytes of the whole body for an object of `size` bytes.
[[nodiscard]] inline std::uint64_t copy_length(const std::string& prelude, std::uint64_t size) {
  return prelude.size() + blocks_of(size) * sizeof(std::uint32_t) + size;
}

}  // namespace tarn::target
