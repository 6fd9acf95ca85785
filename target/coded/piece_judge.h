#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "target/coded/piece_format.h"
#include "target/node/node.h"

namespace tarn::target {

/// What is left of the pieces of one set, wherever. Pure.
class LeftOfSet {
 public:
  /// Piece `index` is in this state at some target.
  void add(std::size_t index, PieceState state);
  /// Whether the object could be read from what is left, or that cannot be told yet: a whole is the
  /// object, and so are k slices; what waits may be either.
  [[nodiscard]] bool may_be_the_object(std::size_t k) const;

 private:
  std::set<std::size_t> slices_;
  bool whole_ = false;
  bool waits_ = false;
};

/// What this target, as the owner of the objects, says of pieces that `home` has: whether the
/// newest version names them there, and if not, up to which generation nobody needs them. For one
/// that is above all versions, a write that never was named or a version before that, the newest is
/// committed once more first, so that the answer holds for ever (docs/decisions/019, rule D). What
/// cannot be told now, and pieces that may be all that is left of an object, wait.
Task<std::vector<PieceVerdict>> judge(TargetNode& node, std::string home,
                                      std::vector<HeldPiece> pieces);

}  // namespace tarn::target
