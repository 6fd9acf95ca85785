#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/buffer_pool.h"
#include "ec/layout.h"

namespace tarn::ec {

/// Memory for some blocks of one stripe, each aligned to its size or to 4 KiB: four blocks of 64
/// KiB in each buffer. Buffers come from the pool of the thread that makes it and go to that of the
/// thread where it dies: when that is the same one, no memory is allocated once the pool is warm.
/// Moving it does not move the blocks.
class Stripe {
 public:
  Stripe() = default;
  /// `count` at most kSlicesMax.
  Stripe(std::size_t block_bytes, std::size_t count);

  [[nodiscard]] bool valid() const { return count_ > 0; }
  /// The whole room of block `index`: block_bytes.
  [[nodiscard]] std::span<std::byte> room(std::size_t index) const;
  /// Block `index` as it is to be written: units and footers, from set_block_bytes().
  [[nodiscard]] std::span<const std::byte> block(std::size_t index) const {
    return room(index).first(used_bytes_);
  }

  /// Number of the stripe in the object, and length of each of its blocks; the owner's to set.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::size_t used_bytes() const { return used_bytes_; }
  void describe(std::uint64_t number, std::size_t used_bytes);

 private:
  static constexpr std::size_t kBuffersMax = kSlicesMax * kBlockBytes / PooledBuffer::kSmallBytes;
  std::array<PooledBuffer, kBuffersMax> buffers_;
  std::size_t block_bytes_ = 0;
  std::size_t count_ = 0;
  std::size_t used_bytes_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace tarn::ec
