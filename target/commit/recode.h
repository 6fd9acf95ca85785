#pragma once

#include "common/api/bucket_props.h"
#include "target/node/node.h"

namespace tarn::target {

// Objects that are not kept as their bucket wants it by now (docs/decisions/019, "Changes of
// coding"). Some have another code, some are to be cut, some are to be whole again.

/// True if `record` is such a one. Pure.
[[nodiscard]] bool is_kept_otherwise(const api::BucketProps& props, const io::ObjectRecord& record);

/// Stores an object of ours once more, as its bucket wants it: the same bytes, version, time and
/// metadata. True: nothing is left to be done. False: it is being written. Errors: unavailable when
/// the name is not ours, or too few replicas for its slices are up (as with `durability: strict`);
/// those of reading it and of a write.
Task<Result<bool>> recode(TargetNode& node, ObjectName name);
/// The same, with a line in the log when it fails; conflict when it is being written.
Task<Status> recode_patiently(TargetNode& node, ObjectName name);

}  // namespace tarn::target
