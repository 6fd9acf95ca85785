#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/action.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// Whether `action` is about many objects of a bucket: delete-, copy-, evict- and
/// prefetch-listrange.
[[nodiscard]] bool is_multi_object(const std::string& action);

/// DELETE or POST /v1/buckets/B with such an action: answers with the id of a job that has begun
/// (object_job.h). evict and prefetch are for upstream buckets: 400 for ours. `synchronize` as
/// order_of_objects() has it.
Task<Status> act_on_objects(const Services& services, http::Request& request, api::Bucket bucket,
                            Action action, bool synchronize = false);

}  // namespace tarn::proxy
