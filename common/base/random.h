#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tarn {

/// `count` bytes from the kernel (getrandom). Aborts when the kernel has none, which does not
/// happen.
[[nodiscard]] std::string random_bytes(std::size_t count);
[[nodiscard]] std::uint64_t random_u64();

/// An identifier of `length` letters and digits, as AIStore allows for nodes and jobs.
[[nodiscard]] std::string random_id(std::size_t length);

}  // namespace tarn
