#pragma once

#include "target/node/node.h"

namespace tarn::target {

// Checks before a request is served: bucket and owner by the newest map, the lease, and, for
// writes, their turn while ownership is handed over.

/// Admits a GET or HEAD: unsigned requests are fine, answers without a lease are marked. Errors:
/// bucket_not_found, invalid_argument, forbidden, unavailable (no lease and the client insists on a
/// fresh answer). The caller looks at `elsewhere`.
Task<Result<ObjectRequest>> admit_read(TargetNode& node, http::Request& request);
/// The same without waiting, as it almost always can be done. False: admit_read_later() must do the
/// rest.
Result<bool> admit_read_now(TargetNode& node, http::Request& request, ObjectRequest& out);
Task<Status> admit_read_later(TargetNode& node, http::Request& request, ObjectRequest& out);
/// Admits a request that changes something: only as a proxy sent it, and only with a lease. A name
/// that is being handed over to us is waited for, for a while. The caller looks at `elsewhere`;
/// where that is null, `write` has begun.
Task<Result<ObjectRequest>> admit_write(TargetNode& node, http::Request& request);

/// Reason why this target cannot serve now; ok when it can.
[[nodiscard]] Status readiness(const TargetNode& node);

}  // namespace tarn::target
