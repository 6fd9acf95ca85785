#pragma once

#include <deque>
#include <span>
#include <vector>

#include "target/node/node.h"

namespace tarn::target {

/// The next slices of a drive, in the order of their keys.
struct SliceRun {
  std::deque<SliceKey> keys;
  bool more = true;  ///< further ones come after them
};
/// Takes keys off the runs, the least first, until one that goes on is empty, or all are. Those
/// that several runs had. Pure.
[[nodiscard]] std::vector<SliceKey> take_doubles(std::span<SliceRun> runs);

/// Result of a look for slices that lie on several drives of this target.
struct DoubleSlices {
  std::size_t found = 0;
  std::size_t removed = 0;  ///< files
  std::size_t left = 0;     ///< of those found: none of it could be taken away
};
/// Leaves each of them on one drive (SlicesHere::keep_one()).
Task<Result<DoubleSlices>> drop_doubles(TargetNode& node);

/// Does so at the start, when a drive has come or is back, and once a day. All that it needs to
/// know is here, so it waits for no other target. Runs until it is cancelled.
Task<void> keep_slices_single(TargetNode& node);

}  // namespace tarn::target
