#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/action.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// True if `action` is about many objects of a bucket: delete-, copy-, evict- and
/// prefetch-listrange.
[[nodiscard]] bool is_multi_object(const std::string& action);

/// DELETE or POST /v1/buckets/B with such an action: answers with the id of a job that has begun
/// (object_job.h). evict and fetching actions are for upstream buckets: 400 for ours. `synchronize`
/// as order_of_objects() has it.
Task<Status> act_on_objects(const Services& services, http::Request& request, api::Bucket bucket,
                            Action action, bool synchronize = false);

/// POST /v1/objects/B with an action that has the name of the object beside it: blob-download
/// begins a job that fetches it from upstream. Answers with the id of the job; with none when the
/// object is here already, unless the newest version is wanted. object_not_found at once.
Task<Status> act_in_bucket(const Services& services, http::Request& request, std::string bucket);

}  // namespace tarn::proxy
