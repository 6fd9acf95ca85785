#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tarn::target {

/// Number in the name of a directory of data files, 8 hex digits, or of a file in it, 16; nothing
/// when the name is not one of ours.
[[nodiscard]] std::optional<std::uint32_t> directory_in(std::string_view name);
[[nodiscard]] std::optional<std::uint64_t> file_id_in(std::string_view name);

}  // namespace tarn::target
