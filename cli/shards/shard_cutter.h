#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cli/shards/tar_stream.h"
#include "common/base/error.h"

namespace tarn::cli {

/// Bytes of a spooled stream: the writer of the spool knows their place.
struct SpooledRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// A shard whose content is decided: a whole tar archive.
struct ShardPlan {
  std::uint64_t number = 0;
  std::string prologue;              ///< global headers, before everything else
  std::vector<SpooledRange> ranges;  ///< the members, in order; neighbours are joined
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;  ///< of the archive: prologue, members, end marker

  /// End of a tar archive.
  [[nodiscard]] static std::string end_marker() { return std::string(2 * kTarBlock, '\0'); }
};

struct CutLimits {
  std::uint64_t shard_bytes_max = 1ULL << 30U;  ///< of an archive, unless one sample is larger
  std::uint64_t samples_max = 0;                ///< in a shard; 0: any number
  std::uint64_t hold_bytes = 4ULL << 30U;       ///< see ShardCutter
  std::uint64_t hold_members = 500'000;         ///< bounds the memory
};

/// Decides which member of a tar stream goes into which shard; a sample is never split. The result
/// depends on the stream, shard_bytes_max and samples_max alone: cutting the same stream again
/// makes the same bytes.
///
/// Directories come in an order of their own when tar ran without an option that sorts them. So the
/// files of a sample need not be neighbours. Up to hold_bytes (or hold_members) of the stream are
/// held back, and samples leave in the order of their first member, whole. A sample that goes on
/// after it has left is an error, never a split; it is noticed among the last million samples.
///
/// Pure: no I/O. Not thread-safe.
class ShardCutter {
 public:
  explicit ShardCutter(CutLimits limits) : limits_(limits) {}

  /// A member and where it was spooled; `globals` are the stream's global headers so far. conflict
  /// when its sample has left already; unsupported for a hard link to a file that may lie in
  /// another shard.
  Status add(const TarMember& member, SpooledRange where, const std::string& globals);
  /// The stream has ended: all held samples leave.
  void finish();
  /// The next shard whose content is decided.
  [[nodiscard]] std::optional<ShardPlan> take();

  [[nodiscard]] std::uint64_t samples() const { return samples_out_; }
  [[nodiscard]] std::uint64_t largest_sample() const { return largest_sample_; }

 private:
  struct Sample {
    std::string key;
    std::vector<SpooledRange> ranges;
    std::uint64_t bytes = 0;
    std::size_t members = 0;
    std::size_t globals = 0;  ///< bytes of the global headers before its last member
    bool counts = false;      ///< has a file: a directory alone is no sample
  };

  void release_first();
  void place(const Sample& sample);
  void close_shard();
  void remember(std::uint64_t digest);

  CutLimits limits_;
  std::deque<Sample> held_;     ///< in the order of their first members
  std::uint64_t released_ = 0;  ///< samples that have left held_: index of held_.front()
  std::unordered_map<std::string, std::uint64_t> index_of_;  ///< key to index, released_ included
  std::uint64_t held_bytes_ = 0;
  std::size_t held_members_ = 0;

  std::unordered_set<std::uint64_t> left_;  ///< digests of keys
  std::deque<std::uint64_t> left_order_;

  std::string globals_;  ///< only grows
  ShardPlan open_;
  std::deque<ShardPlan> closed_;
  std::uint64_t samples_out_ = 0;
  std::uint64_t largest_sample_ = 0;
};

}  // namespace tarn::cli
