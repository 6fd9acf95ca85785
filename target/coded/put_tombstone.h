#pragma once

#include <vector>

#include "common/api/custom_metadata.h"
#include "target/node/node.h"

namespace tarn::target {

/// Tombstones `present` and unlinks its files, durably; the tombstone's generation. `custom`: what
/// the tombstone notes. The caller holds the name's lock.
Task<Result<Generation>> put_tombstone(TargetNode& node, const ObjectRequest& wanted,
                                       std::vector<Located> present, const OwnedNames::Write& write,
                                       api::CustomMetadata custom);
/// The same, of a plain delete.
Task<Status> delete_present(TargetNode& node, const ObjectRequest& wanted,
                            std::vector<Located> present, const OwnedNames::Write& write);
/// Deletes a version of an object, unless it has been replaced meanwhile. Not under the name's
/// lock. Errors of begin_write(): the name is not ours, or on its way.
Task<Status> delete_version(TargetNode& node, const ObjectRequest& wanted, Generation version);

}  // namespace tarn::target
