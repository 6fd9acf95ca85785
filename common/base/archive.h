#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tarn {

/// Appends a regular file to a tar archive (POSIX ustar). `name` has at most 100 bytes.
void append_to_tar(std::string& archive, std::string_view name, std::string_view content,
                   std::int64_t modified_s);
/// Appends the two empty blocks that end a tar archive.
void end_tar(std::string& archive);
/// A tar archive of one regular file, as append_to_tar().
[[nodiscard]] std::string tar_of(std::string_view name, std::string_view content,
                                 std::int64_t modified_s);
/// `bytes` in gzip's format (RFC 1952).
[[nodiscard]] std::string gzip(std::string_view bytes);

}  // namespace tarn
