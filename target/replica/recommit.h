#pragma once

#include <vector>

#include "target/node/node.h"

namespace tarn::target {

// Commits the content of a record once more, under a generation of its own (docs/decisions/019). So
// a pending one goes forward (rule F), slices get other holders, or an unneeded slice is dropped.
// ETag, version, times and custom metadata stay.

/// A generation for a commit by `write`, above that of the newest version. Under the name's lock.
/// unavailable without a lease, or when the newest one is from the future.
[[nodiscard]] Result<Generation> generation_above(TargetNode& node, const ObjectRequest& wanted,
                                                  const OwnedNames::Write& write,
                                                  const io::ObjectRecord& newest);

/// Commits the newest of `present` (from find_newest, whose holder is this target) under
/// `generation`, at all replicas. `coding`, if there is one, names the places of its slices now:
/// they are sealed there for this generation. Under the name's lock. After an error the outcome is
/// unknown.
Task<Status> recommit(TargetNode& node, const ObjectRequest& wanted, const OwnedNames::Write& write,
                      std::vector<Located> present, Generation generation,
                      const io::Coding* coding = nullptr);

}  // namespace tarn::target
