#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tarn {

/// A buffer for payload: aligned to 4 KiB, from the pool of the calling thread, returned there when
/// it dies. Pooled because buffers above 128 KiB from malloc are mapped anew each time, and page
/// faults cost more than the copy (measured: 0.5 s/GB). Latest used first, while it is still in the
/// cache.
class PooledBuffer {
 public:
  static constexpr std::size_t kSmallBytes = 256UL * 1024;   ///< receiving
  static constexpr std::size_t kBlockBytes = 1024UL * 1024;  ///< reading a checksummed block

  PooledBuffer() = default;
  /// `bytes` is rounded up to one of the two sizes; larger ones are not pooled.
  explicit PooledBuffer(std::size_t bytes);
  ~PooledBuffer();
  PooledBuffer(PooledBuffer&& other) noexcept;
  PooledBuffer& operator=(PooledBuffer&& other) noexcept;

  [[nodiscard]] std::span<std::byte> span() const { return {data_, size_}; }
  [[nodiscard]] bool valid() const { return data_ != nullptr; }
  /// Bytes of all buffers that live now, of all threads; free ones in the pools are not counted.
  [[nodiscard]] static std::size_t bytes_in_use();

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tarn
