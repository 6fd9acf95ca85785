#pragma once

#include "target/node/node.h"

namespace tarn::target {

// POST /v1/internal/clean-up and /v1/internal/load-index, {"job":ID,"buckets":[IDS]}: a target's
// part of AIStore's cleanup-store and load-lom-cache. The answer is lines of api::CopyProgress
// (target/node/job_stream.h). Drives that are out of service are left out.

/// Removes, beside all that goes on, files of destroyed buckets, versions that were replaced or
/// deleted, and abandoned uploads: all that could not be removed at the time. With buckets, only
/// what is of these. Counts files and their bytes.
Task<Status> start_clean_up(TargetNode& node, http::Request& request);

/// Reads the index's records of one bucket, so that they are in its memory as far as they fit.
/// Counts objects, each copy for itself.
Task<Status> start_load_index(TargetNode& node, http::Request& request);

}  // namespace tarn::target
