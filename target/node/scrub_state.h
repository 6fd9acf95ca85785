#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/io/object_attribute.h"
#include "target/drive/index.h"

namespace tarn::target {

// State of a drive's scrub, as its index keeps it, and decisions by it. Pure.

/// The last file of a pass that has been looked at: buckets by id, of each its objects, then its
/// slices.
struct ScrubMark {
  std::uint64_t bucket = 0;
  bool slices = false;
  std::string name;
  std::uint64_t set = 0;  ///< of a slice, as `index`
  std::uint8_t index = 0;

  bool operator==(const ScrubMark&) const = default;
};

/// A file that was not read back as it was stored.
struct ScrubFinding {
  enum class Outcome : std::uint8_t {
    open,      ///< not made again yet
    repaired,  ///< another file took its place
    gone       ///< no longer needed
  };
  SliceKey key;         ///< set and index of a slice, 0 of an object
  bool slice = false;   ///< a slice or a full copy; else a copy of an object, or the only one
  io::FileName file{};  ///< the bad one
  std::int64_t found_ns = 0;
  std::int64_t ended_ns = 0;  ///< time when its outcome was seen
  Outcome outcome = Outcome::open;
  std::string error;

  bool operator==(const ScrubFinding&) const = default;
};
[[nodiscard]] std::string_view to_string(ScrubFinding::Outcome outcome);

/// Progress of the scrub of a drive. Times are wall clock.
struct ScrubState {
  /// Findings that are kept; the oldest go.
  static constexpr std::size_t kFindingsMax = 200;
  /// Cost of opening a file, in bytes that could be read meanwhile.
  static constexpr std::uint64_t kFileCost = 256U << 10U;

  std::string job;            ///< job that wanted the present pass, or the last; empty: by itself
  std::int64_t began_ns = 0;  ///< the present pass; 0: none
  std::int64_t first_ns = 0;  ///< begin of the first pass ever
  std::int64_t ended_ns = 0;  ///< of the last pass that was completed
  std::int64_t verified_ns = 0;  ///< begin of that pass: all here then has been read since; 0: none
  ScrubMark at;
  std::uint64_t files = 0;  ///< of the present pass, or the last
  std::uint64_t bytes = 0;
  std::uint64_t bad = 0;
  std::uint64_t cost = 0;   ///< of these, with kFileCost
  std::uint64_t whole = 0;  ///< cost of all, as it was counted at the begin
  std::uint64_t bad_ever = 0;
  std::vector<ScrubFinding> found;  ///< the newest last

  [[nodiscard]] bool runs() const { return began_ns != 0; }
  void begin(const std::string& for_job, std::uint64_t cost_of_all, std::int64_t now_ns);
  /// One more file has been read.
  void passed(ScrubMark mark, std::uint64_t file_bytes);
  /// Takes the place of an older finding about the same file.
  void add(ScrubFinding finding);
  /// All has been read.
  void end(std::int64_t now_ns);
  bool operator==(const ScrubState&) const = default;
};
/// In MessagePack, since names are any bytes.
[[nodiscard]] std::string encode(const ScrubState& state);
/// corrupt when it is none.
[[nodiscard]] Result<ScrubState> scrub_state_from(std::string_view text);

/// Time when the next pass is to begin by itself. So it can end by its scrub_deadline_ns() though
/// it takes four fifths of the period, or what it takes at the least rate. 0: at once.
[[nodiscard]] std::int64_t next_scrub_ns(const ScrubState& state, std::chrono::nanoseconds period);
/// Time when the present pass is to end, so that no byte waits for longer than `period`. Passes
/// read in one order, and the last bytes of the pass before were read when that ended.
[[nodiscard]] std::int64_t scrub_deadline_ns(const ScrubState& state,
                                             std::chrono::nanoseconds period);
/// Rate a second, as costs, that a pass needs to end by its deadline. With a least that ends a
/// small drive soon, and a most, so that a late one leaves something to clients: all of the drive
/// in a quarter of the period.
[[nodiscard]] std::uint64_t scrub_rate_needed(const ScrubState& state,
                                              std::chrono::nanoseconds period, std::int64_t now_ns);

}  // namespace tarn::target
