#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"
#include "proxy/object/assign.h"

namespace tarn::proxy {

/// Summaries of buckets (docs/api.md): counted by a job, asked for by its id. The
/// counts come from the targets' indexes, and those of upstream from its lists; a target that does
/// not answer fails the job.

/// GET /v1/buckets[/B] {"action":"summary-bck"}: 202 and the id of a new job. For a job that
/// exists: 202 with no bucket done, 206 with some, 200 with all. `bucket` is empty for all buckets
/// of the query's provider.
Task<Status> summarize(const Services& services, http::Request& request, std::string bucket,
                       const nlohmann::json& message);

/// HEAD /v1/buckets/B[/PREFIX]?bsumm_remote=: 202 with Ais-Xaction-Id, then, with uuid=, 200 with
/// Ais-Bucket-Summ.
Task<Status> bucket_info(const Services& services, http::Request& request, KnownBucket bucket,
                         std::string prefix);

/// Counts, from the beginning (Jobs::Drive).
Task<Status> drive_summary(const Services& services, Job job);

}  // namespace tarn::proxy
