#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/io/file_system.h"
#include "target/drive/drive.h"

namespace tarn::target {

// Pure decisions of eviction: how much goes from a drive, and which objects (docs/decisions/022).

/// Bytes to free on one drive.
struct EvictionGoal {
  std::uint64_t bytes = 0;            ///< of objects that were not read for lru.dont_evict_time
  std::uint64_t protected_bytes = 0;  ///< below this even of those that were; at most `bytes`
  std::uint64_t least = 0;            ///< no eviction where all that may go is less than this

  [[nodiscard]] bool is_empty() const { return bytes == 0; }
};

/// Causes to look at a drive.
enum class EvictionCause : std::uint8_t {
  watermark,  ///< by itself: begins above the high watermark
  order       ///< an operator wants the low watermark now
};

/// Returns what to free. Down to the low watermark; protected objects go only from a drive at
/// `out_of_space`, and only down to the high watermark. Empty: nothing to do.
[[nodiscard]] EvictionGoal eviction_goal(const io::Space& now, const SpaceLimits& limits,
                                         EvictionCause cause);
/// Returns what to free so that writes of `wanted` bytes, which were refused, have room. Empty: the
/// drive could not take them if it were empty.
[[nodiscard]] EvictionGoal eviction_goal_for(const io::Space& now, const SpaceLimits& limits,
                                             std::uint64_t wanted);

/// One object that may be evicted.
struct EvictionCandidate {
  std::uint32_t age = 0;      ///< seconds since it was read last
  std::uint64_t bytes = 0;    ///< on the drive
  bool is_protected = false;  ///< read within lru.dont_evict_time
};

/// Chooses the least recently used objects without sorting them: a first walk over the candidates
/// counts bytes by age, a second one asks of each whether it goes. Ages are distinguished to a
/// second below two minutes, to 1/64 above. Costs 28 KiB, however many objects there are. For one
/// thread.
class EvictionPlan {
 public:
  /// Counts a candidate; the first walk.
  void add(const EvictionCandidate& candidate);
  /// Ends the first walk. True if something goes.
  bool settle(const EvictionGoal& goal);
  /// True if this candidate goes; the second walk. One that has become younger since is judged by
  /// its new age.
  [[nodiscard]] bool take(const EvictionCandidate& candidate);
  /// Bytes of all candidates that were added.
  [[nodiscard]] std::uint64_t candidate_bytes() const;

 private:
  static constexpr unsigned kStepBits = 6;
  static constexpr std::size_t kBins = (32 - kStepBits + 1) << kStepBits;
  [[nodiscard]] static std::size_t bin_of(std::uint32_t age);

  /// Candidates of one kind: the oldest go, up to a number of bytes.
  struct Ages {
    std::array<std::uint64_t, kBins> bytes{};
    std::uint64_t sum = 0;
    std::size_t cut = kBins;  ///< all bins above go, of this one a part
    std::uint64_t rest = 0;   ///< bytes of bin `cut` that go still
    void choose(std::uint64_t wanted);
  };
  Ages free_;
  Ages protected_;
};

}  // namespace tarn::target
