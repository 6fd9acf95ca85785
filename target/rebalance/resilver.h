#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "common/api/move_progress.h"
#include "common/base/ids.h"
#include "target/node/node.h"

namespace tarn::target {

/// A record of a name, for resilver_step(): the drive, by any number, and its generation.
struct Placed {
  std::size_t drive = 0;
  Generation generation;
};
enum class ResilverStep : std::uint8_t {
  nothing,  ///< in place, or not there any more
  erase,    ///< its place, or any other drive, has something as new or newer: it is a leftover
  move      ///< the newest, which belongs to its place
};
/// Returns what to do with the record of a name on drive `here` when its place is another drive.
/// Pure.
[[nodiscard]] ResilverStep resilver_step(const std::vector<Placed>& all, std::size_t here,
                                         std::size_t place);

/// Moves what lies on another drive of this target than placement wants to where it belongs,
/// generations kept. An upload may have found its drive full, or a drive came. Clears the marks
/// that make look-ups visit more than one drive. Moves slices after that (slice_moves.h). Names
/// whose drive is away stay where they are. One walk at a time: conflict while any runs; a
/// rebalance that begins ends it. Errors as MoveWalk::run().
Task<Status> resilver_walk(TargetNode& node, api::MoveProgress& progress, std::stop_token stop);

/// After a look through all of each drive that may hold what belongs elsewhere: look-ups do not
/// visit those any more that hold nothing of the kind. Does nothing while a drive is stale
/// (Mirror): then what its place has of a name may be stale.
Task<Status> clear_misplaced_marks(TargetNode& node);

}  // namespace tarn::target
