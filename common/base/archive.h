#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tarn {

/// A tar archive (POSIX ustar) of one regular file. `name` has at most 100 bytes.
[[nodiscard]] std::string tar_of(std::string_view name, std::string_view content,
                                 std::int64_t modified_s);
/// `bytes` in gzip's format (RFC 1952).
[[nodiscard]] std::string gzip(std::string_view bytes);

}  // namespace tarn
