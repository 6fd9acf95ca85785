#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace tarn {

/// XXH64 of `bytes`. Source: the xxHash specification, through libxxhash.
[[nodiscard]] std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed = 0);
[[nodiscard]] std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

/// CRC-32C (Castagnoli) through ISA-L. `crc` is the value of the bytes before, 0 at the start:
/// crc32c("123456789") is 0xE3069283.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc = 0);

/// XXH64 over chunks. A copy goes on from the position of the original. Not thread-safe.
class Xxh64Stream {
 public:
  Xxh64Stream();
  ~Xxh64Stream();
  Xxh64Stream(const Xxh64Stream& other);
  Xxh64Stream& operator=(const Xxh64Stream& other);
  Xxh64Stream(Xxh64Stream&&) noexcept;
  Xxh64Stream& operator=(Xxh64Stream&&) noexcept;
  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tarn
