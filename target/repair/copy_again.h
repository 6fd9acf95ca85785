#pragma once

#include "target/node/node.h"

namespace tarn::target {

// A copy on this node whose file is not what was stored (docs/decisions/014): other replicas of the
// name have the same version, and one of them sends it once more. The owner has no special part in
// it.

/// Reads what is here of a name that a reader found bad, and if it is bad, has it made anew. The
/// new file takes the place of the bad one as one of a PUT does. Logs what became of it; what could
/// not be done is tried again when a reader finds it again.
Task<void> mend_from_others(TargetNode& node, ObjectName name);

/// Takes an object that can be fetched from upstream out of the cluster, if its file here no longer
/// has the stored bytes: the next read fetches it. False: it is another object, or is well.
Task<Result<bool>> evict_unreadable(TargetNode& node, ObjectName name);

/// `POST /v1/internal/copies/again?bucket=&object=&map=&bmd=`: sends the caller what is here
/// (move_copy.h), and answers when it has that. Acts by a state of the cluster at least as new as
/// the caller's.
Task<Status> give_again(TargetNode& node, http::Request& request);

}  // namespace tarn::target
