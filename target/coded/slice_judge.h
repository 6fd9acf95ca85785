#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "target/coded/slice_messages.h"
#include "target/node/node.h"

namespace tarn::target {

/// Slices that are left of one set, at all targets. Pure.
class LeftOfSet {
 public:
  /// Slice `index` is in this state at some target.
  void add(std::size_t index, SliceState state);
  /// True if the object could be read from what is left, or that is not known yet. A full copy is
  /// the object, and so are k slices; a slice that waits may be either.
  [[nodiscard]] bool may_be_the_object(std::size_t k) const;

 private:
  std::set<std::size_t> slices_;
  bool full_copy_ = false;
  bool waits_ = false;
};

/// Returns this target's verdicts, as the owner of the objects, on slices that `holder` has: if the
/// newest version names them there, and if not, up to which generation they are not needed. A slice
/// may be above all versions: of a write that never was named, or a version before that. Then the
/// newest is first committed once more, so that the answer holds for ever (docs/decisions/019, rule
/// D). Slices that cannot be judged now, or may be all that is left of an object, wait.
Task<std::vector<SliceVerdict>> judge(TargetNode& node, std::string holder,
                                      std::vector<HeldSlice> slices);

}  // namespace tarn::target
