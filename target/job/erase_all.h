#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "target/node/node.h"

namespace tarn::target {

/// Erases all that users have stored here, in the buckets that there are. Only while the node is
/// outside of the cluster (Membership::is_outside()), else conflict. Errors as
/// ObjectStore::forget().
Task<Status> erase_all(TargetNode& node);

/// GET: how many objects lie here, and how many bytes, {"objects":N,"bytes":N}. Internal listener.
Task<Status> tell_holdings(TargetNode& node, http::Request& request);

}  // namespace tarn::target
