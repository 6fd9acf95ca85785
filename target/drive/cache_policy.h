#pragma once

#include <atomic>
#include <cstdint>

namespace tarn::target {

/// Decides whether what was read from the drives stays in the page cache. A data set larger than
/// memory, read epoch after epoch, would only push out what other programs use: by the time a shard
/// comes round again it has been evicted. So a file's pages are dropped once they have been read.
/// They stay when everything stored fits, or when the file was read so recently that it would still
/// have been there. One for all drives of a target. Thread-safe.
class CachePolicy {
 public:
  /// `memory`: bytes that the target may fill, page cache included (memory_limit()).
  explicit CachePolicy(std::uint64_t memory) : memory_(memory) {}

  /// Bytes sent to readers so far: the clock by which the age of a reading is counted.
  [[nodiscard]] std::uint64_t now() const { return read_.load(std::memory_order_relaxed); }
  void note_read(std::uint64_t bytes) { read_.fetch_add(bytes, std::memory_order_relaxed); }
  void note_stored(std::uint64_t bytes) { stored_.fetch_add(bytes, std::memory_order_relaxed); }
  void note_removed(std::uint64_t bytes) { stored_.fetch_sub(bytes, std::memory_order_relaxed); }

  /// `last_read`: now() when the file was last opened for reading; 0 when it never was.
  [[nodiscard]] bool keep(std::uint64_t last_read) const {
    const std::uint64_t room = memory_ / 2;
    if (stored_.load(std::memory_order_relaxed) <= room) return true;
    return last_read != 0 && now() - last_read <= room;
  }

 private:
  const std::uint64_t memory_;
  std::atomic<std::uint64_t> read_{1};  // never 0: that means never
  std::atomic<std::uint64_t> stored_{0};
};

}  // namespace tarn::target
