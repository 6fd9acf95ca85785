#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/cluster/place/node_set.h"
#include "common/io/object_attribute.h"
#include "target/coded/slice_messages.h"
#include "target/coded/slice_remake.h"

namespace tarn::target {

// Plan of the repair of one object's slices (docs/decisions/019, "Repair"). Pure.

/// Known states of the slices.
struct SliceReport {
  const io::Coding& coding;
  std::span<const SliceState> states;          ///< of each slice where `coding` names it
  SliceState full_copy = SliceState::missing;  ///< the same of the full copy
};

struct Repair {
  std::vector<SliceGoal> anew;   ///< to be made out of other slices, where they were or elsewhere
  std::vector<SliceGoal> moves;  ///< good where they are, to be copied to where they belong
  std::string full_copy;         ///< target for the full copy; empty: none
  /// True if the present full copy (which was acknowledged before the slices) is not needed after
  /// this repair.
  bool drop_full_copy = false;
  std::size_t good = 0;      ///< slices that can be read now
  std::size_t left = 0;      ///< slices that may go before it is lost, of those that can be read
  std::size_t waiting = 0;   ///< slices that may be back
  std::size_t missing = 0;   ///< slices
  std::size_t unplaced = 0;  ///< missing slices that no target takes now
  bool lost = false;         ///< too few slices are there, also with those that may be back
  /// The target that is to make the full copy, which is missing; empty if that is `self`.
  std::string full_copy_is_for = {};
  bool placed_worse = false;  ///< after this repair a target has more of them than it shall

  [[nodiscard]] bool empty() const {
    return anew.empty() && moves.empty() && full_copy.empty() && !drop_full_copy;
  }
  [[nodiscard]] std::size_t slices() const {
    return anew.size() + moves.size() + (full_copy.empty() ? 0 : 1);
  }
};

/// Returns how many more slices of an object, whichever they are, may go before it is lost. `good`:
/// slices that can be read; `has_full_copy`: the full copy can be read, too.
[[nodiscard]] std::size_t slices_left(const io::Coding& coding, std::size_t good,
                                      bool has_full_copy);

/// True if `self` is where full_copies of objects of this name belong.
[[nodiscard]] bool is_holder_of_full_copy(const cluster::NodeSet& standing,
                                          std::uint64_t name_digest, const std::string& self);

/// `standing` and `takes` as of plan_slices(). `self`: the target that is to do it; the full copy
/// follows the owner by the standing members, which makes it itself. Fewer than k good slices, and
/// no good full copy: nothing can be done.
[[nodiscard]] Repair plan_repair(const cluster::NodeSet& standing, std::uint64_t name_digest,
                                 const SliceReport& report, const std::string& self,
                                 const std::function<bool(const std::string&)>& takes);

/// Splits `repair` into parts that are each written and then sealed: the slices that are made anew,
/// then each that is moved, then the full copy. So no written slice waits for the other ones, which
/// may take longer than OpenSlices::kKept. The last part has `drop_full_copy`.
[[nodiscard]] std::vector<Repair> parts_of(const Repair& repair);

}  // namespace tarn::target
