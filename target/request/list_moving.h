#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// GET /v1/internal/list-moving: one target's part of a list while names move. Query: bucket, bmd,
/// prefix, after, limit (records), props, time_format; `map`, the version by which the caller asks,
/// and `own`: 1 for names that are ours by it, 0 for names that are not, `all` for both. The answer
/// is MessagePack:
///
///   {"more":B,"last":N,"records":[[name, [map, incarnation, counter], entry, drives, size], ..],
///    "uncounted":{"drives":N,"unseen":B,"expected":B}}
///
/// Records are in the order of names. `entry` is packed as in a page of a list, and empty for a
/// tombstone. `drives`: on how many it lies; `size`: of the object in bytes. With `more`, all up to
/// `last`; the next call goes on after it. Never short. With `fresh`=1 names of ours are listed
/// under a lease only. 421: this target acts on a newer map. unavailable: it is not authoritative
/// for all.
///
/// With `own`=all and `away`=count, for counts: drives that are out of service are passed over, and
/// `uncounted` reports what they keep from the answer (common/api/uncounted.h). Files that are
/// known to be bad are not among `drives`, which may be 0. A record has a sixth value then, true if
/// this target owns its name.
Task<Status> list_moving(TargetNode& node, http::Request& request);

/// True if no drive has a record of any bucket.
Task<Result<bool>> holds_nothing(ObjectStore& store,
                                 std::shared_ptr<const cluster::ClusterState> state);

}  // namespace tarn::target
