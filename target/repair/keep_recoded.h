#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// Keeps what this target owns as the properties of its buckets demand, where these have changed
/// (recode.h). Works whenever the coding of a bucket or the map has changed, until nothing is left
/// to be done. Runs until it is cancelled.
Task<void> keep_recoded(TargetNode& node);

/// POST /v1/internal/recode {"job":ID,"bucket":N,"changed":BOOL}: the same of one bucket, now, with
/// lines of CopyProgress until nothing of it is left to be done. `changed`: its coding has just
/// become another, and what was done since then counts.
Task<Status> start_recode(TargetNode& node, http::Request& request);

}  // namespace tarn::target
