#include "ec/stripe.h"

#include "common/base/check.h"

namespace tarn::ec {

Stripe::Stripe(std::size_t block_bytes, std::size_t count)
    : block_bytes_(block_bytes), count_(count), used_bytes_(block_bytes) {
  TARN_CHECK(block_bytes <= kBlockBytes && count <= kSlicesMax);
  const std::size_t bytes = block_bytes * count;
  for (std::size_t i = 0; i * PooledBuffer::kSmallBytes < bytes; ++i)
    buffers_[i] = PooledBuffer(PooledBuffer::kSmallBytes);
}

std::span<std::byte> Stripe::room(std::size_t index) const {
  TARN_CHECK(index < count_);
  const std::size_t at = index * block_bytes_;
  return buffers_[at / PooledBuffer::kSmallBytes].span().subspan(at % PooledBuffer::kSmallBytes,
                                                                 block_bytes_);
}

void Stripe::describe(std::uint64_t number, std::size_t used_bytes) {
  TARN_CHECK(used_bytes <= block_bytes_);
  number_ = number;
  used_bytes_ = used_bytes;
}

}  // namespace tarn::ec
