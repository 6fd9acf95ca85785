#pragma once

#include <cstddef>
#include <map>

#include "target/node/node.h"

namespace tarn::target {

/// Result of a look through the slices on this target.
struct UnnamedSlices {
  std::size_t asked = 0;                            ///< slices
  std::size_t dropped = 0;                          ///< go soon
  std::size_t waiting = 0;                          ///< of which the owner did not know now
  std::map<BucketId, api::SliceSum> unjudged = {};  ///< the waiting ones by bucket
};

/// Asks the owners of all objects of coded buckets that have slices here if these are needed. Drops
/// those that are not (docs/protocols/coded-repair.md).
Task<Result<UnnamedSlices>> drop_unnamed(TargetNode& node);

}  // namespace tarn::target
