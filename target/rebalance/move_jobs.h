#pragma once

#include "target/node/node.h"

namespace tarn::target {

// Rebalance and resilver as jobs, for the proxies: the answer is a line of progress (MoveProgress)
// several times a second until the job has ended; a caller that goes away ends it. Internal
// listener.

/// Body {"job":ID}. Works by the map in force, which must have settled: 503 until then. handoff()
/// does the same by itself.
Task<Status> start_rebalance(TargetNode& node, http::Request& request);
/// Body {"job":ID}.
Task<Status> start_resilver(TargetNode& node, http::Request& request);
/// GET: what handoff() does by itself (MoveReport).
Task<Status> tell_rebalance(TargetNode& node, http::Request& request);
/// Body {"bandwidth":BYTES_A_SECOND,"workers":N}, either may be left out, 0 as in MoveLimits. In
/// force at once, until the next start. Answers what is in force now.
Task<Status> change_move_limits(TargetNode& node, http::Request& request);

}  // namespace tarn::target
