#pragma once

#include "target/node.h"

namespace tarn::target {

// Rebalance and resilver as jobs, for the proxies: the answer is a line of progress (MoveProgress)
// several times a second until the job has ended; who goes away ends it. Internal listener.

/// Body {"job":"g9","ownership":MAP}, MAP as common/cluster/ownership_json.h has it.
Task<Status> start_rebalance(TargetNode& node, http::Request& request);
/// Body {"job":ID}.
Task<Status> start_resilver(TargetNode& node, http::Request& request);
/// `job=ID` in the query: of any kind.
Task<Status> stop_move(TargetNode& node, http::Request& request);
/// Body {"bandwidth":BYTES_A_SECOND,"workers":N}, either may be left out, 0 as in MoveLimits. In
/// force at once, until the next start. Answers what is in force now.
Task<Status> change_move_limits(TargetNode& node, http::Request& request);

}  // namespace tarn::target
