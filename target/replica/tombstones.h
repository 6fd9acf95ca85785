#pragma once

#include <chrono>
#include <functional>

#include "common/base/async.h"
#include "target/node/node.h"

namespace tarn::target {

/// Rules by which tombstones of a target go.
struct TombstoneRules {
  /// Time that one is kept at least, by the wall clock: what is late in the network or on a drive
  /// is not later than that.
  std::chrono::milliseconds keep = std::chrono::hours(24 * 7);
  /// True if all drives that this target remembers are in service: what is deleted may lie on one
  /// that is not. Any thread.
  std::function<bool()> all_drives_in_service;
};

/// Forgets, slowly, the tombstones that are no longer needed: older than `keep`, at the replica of
/// their names, while all drives are in service. The map is settled, and by it no other target may
/// hold the name (docs/decisions/011, rule 9). Looks through the indexes eight times within `keep`;
/// takes a tenth of a drive's time at most. Runs until it is cancelled.
Task<void> forget_tombstones(TargetNode& node, TombstoneRules rules);

}  // namespace tarn::target
