#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "common/base/error.h"
#include "common/base/unique_fd.h"

namespace tarn::cluster {

/// The number of the last commit that was acknowledged, in a small file of its own beside the
/// embedded store's database. RocksDB cannot distinguish a torn tail of its log (which was never
/// acknowledged) from a damaged or missing one; with the mark a start can, and never goes on with
/// less than was promised.
///
/// The file has two slots, 4 KiB apart, written in turn, so that a torn write spares the other one:
///   slot = "TARNMARK" number(8, little-endian) crc32c of those 16 bytes(4, little-endian)
/// Not thread-safe.
class AcknowledgedMark {
 public:
  explicit AcknowledgedMark(std::filesystem::path file) : file_(std::move(file)) {}

  /// Opens the file. The higher of the two slots; none when there is no such file; corrupt when no
  /// slot can be read.
  Result<std::optional<std::uint64_t>> open();
  /// Makes the file with number 0, synced with its directory.
  Status create();
  /// Writes the number, which is durable on return.
  Status write(std::uint64_t number);

 private:
  std::filesystem::path file_;
  UniqueFd fd_;
};

}  // namespace tarn::cluster
