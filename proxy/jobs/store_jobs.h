#pragma once

#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"
#include "proxy/jobs/job_query.h"

// AIStore's jobs on files of drives: lru, cleanup-store, load-lom-cache. Targets that are away have
// no part in them: a start of a target cleans its drives, and it begins with an empty memory.
namespace tarn::proxy {

/// True if {"action":"start"} of this kind is for start_store_job().
[[nodiscard]] bool is_store_job(const std::string& kind);

/// Begins one on the buckets of `query`, or on all when it names none, on its node or on all
/// targets, and returns its id. invalid_argument for a load without exactly one bucket, or a node
/// that is no target; bucket_not_found; unavailable when that node is away.
Task<Result<std::string>> start_store_job(const Services& services, JobQuery query);

/// lru: evicts from drives down to their low watermark. Only objects that can be read again from
/// upstream go: none of a bucket without one.
Task<Status> drive_eviction(const Services& services, Job job);
/// cleanup-store: removes files that no record needs.
Task<Status> drive_clean_up(const Services& services, Job job);
/// load-lom-cache: a bucket's records into the memory of the indexes.
Task<Status> drive_load_index(const Services& services, Job job);

}  // namespace tarn::proxy
