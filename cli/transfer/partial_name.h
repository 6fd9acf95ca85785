#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tarn::cli {

/// Content of an object: bytes of one checksum are never mixed with those of another.
struct Content {
  std::uint64_t size = 0;
  std::string checksum;  ///< XXH64, hex
};

/// The name of the file beside `file` (a name without directory) that holds the first bytes of the
/// content that `file` shall have: ".FILE.CHECKSUM-SIZE.tarn-part". A name that would be too long
/// for a file system has its end replaced with its hash. Pure.
[[nodiscard]] std::string partial_name(std::string_view file, const Content& content);
/// True if `name` is partial_name(file, of anything). Pure.
[[nodiscard]] bool is_partial_of(std::string_view name, std::string_view file);

/// All such names in a directory; none when it cannot be read. Blocks.
[[nodiscard]] std::vector<std::string> partial_names_in(const std::string& directory);

}  // namespace tarn::cli
