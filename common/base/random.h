#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tarn {

/// `count` bytes from the kernel (getrandom). Aborts when the kernel has none, which does not
/// happen.
[[nodiscard]] std::string random_bytes(std::size_t count);
[[nodiscard]] std::uint64_t random_u64();

/// The characters of identifiers.
inline constexpr std::string_view kIdAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// An identifier of `length` letters and digits, as AIStore allows for nodes and jobs.
[[nodiscard]] std::string random_id(std::size_t length);

}  // namespace tarn
