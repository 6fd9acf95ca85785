#include "common/base/buffer_pool.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

namespace tarn {
namespace {

constexpr std::size_t kAlignment = 4096;
constexpr std::size_t kKeptBytesMax = 16U << 20U;  // a thread

void release(std::byte* data) { ::operator delete[](data, std::align_val_t(kAlignment)); }

/// One thread's free buffers, by size.
struct Pool {
  std::vector<std::byte*> small;
  std::vector<std::byte*> block;
  ~Pool() {
    for (std::byte* data : small) release(data);
    for (std::byte* data : block) release(data);
  }
  std::vector<std::byte*>* of(std::size_t size) {
    if (size == PooledBuffer::kSmallBytes) return &small;
    if (size == PooledBuffer::kBlockBytes) return &block;
    return nullptr;
  }
};

thread_local Pool pool;
std::atomic<std::size_t> in_use{0};

}  // namespace

PooledBuffer::PooledBuffer(std::size_t bytes)
    : size_(bytes <= kSmallBytes ? kSmallBytes : std::max(bytes, kBlockBytes)) {
  auto* free = pool.of(size_);
  if (free != nullptr && !free->empty()) {
    data_ = free->back();
    free->pop_back();
  } else {
    data_ = static_cast<std::byte*>(::operator new[](size_, std::align_val_t(kAlignment)));
  }
  in_use.fetch_add(size_, std::memory_order_relaxed);
}

PooledBuffer::~PooledBuffer() {
  if (data_ == nullptr) return;
  in_use.fetch_sub(size_, std::memory_order_relaxed);
  auto* free = pool.of(size_);
  if (free != nullptr && (free->size() + 1) * size_ <= kKeptBytesMax) {
    free->push_back(data_);
  } else {
    release(data_);
  }
}

std::size_t PooledBuffer::bytes_in_use() { return in_use.load(std::memory_order_relaxed); }

PooledBuffer::PooledBuffer(PooledBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PooledBuffer& PooledBuffer::operator=(PooledBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace tarn
