#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/base/hash.h"
#include "target/drive/drive.h"

namespace tarn::target {

/// Checksums of an object's bytes, computed while they are in the cache on their way to the drive.
class Digests {
 public:
  void update(std::span<const std::byte> bytes) {
    whole_.update(bytes);
    while (!bytes.empty()) {
      const std::size_t room = kBlockBytes - size_ % kBlockBytes;
      const auto chunk = bytes.first(std::min(room, bytes.size()));
      if (size_ % kBlockBytes == 0) blocks_.push_back(0);
      blocks_.back() = crc32c(chunk, blocks_.back());
      size_ += chunk.size();
      bytes = bytes.subspan(chunk.size());
    }
    TARN_CHECK(blocks_.size() == blocks_of(size_));
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t xxh64() const { return whole_.digest(); }
  /// CRC32C of every MiB.
  [[nodiscard]] const std::vector<std::uint32_t>& blocks() const { return blocks_; }

  /// A point to come back to when what followed it does not count.
  struct Mark {
    Xxh64Stream whole;
    std::uint64_t size = 0;
    std::uint32_t last_block = 0;
  };
  [[nodiscard]] Mark mark() const { return {whole_, size_, blocks_.empty() ? 0 : blocks_.back()}; }
  void back_to(const Mark& mark) {
    TARN_CHECK(mark.size <= size_);
    whole_ = mark.whole;
    size_ = mark.size;
    blocks_.resize(blocks_of(size_));
    if (!blocks_.empty()) blocks_.back() = mark.last_block;
  }

 private:
  Xxh64Stream whole_;
  std::vector<std::uint32_t> blocks_;
  std::uint64_t size_ = 0;
};

}  // namespace tarn::target
