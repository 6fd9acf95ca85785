#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/action.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// PUT /v1/cluster {"action":"start"} and {"action":"stop"} (docs/api.md). Stopping answers when
/// the jobs have ended; none that runs is fine, an unknown id is not. A resilver of a target and
/// make-n-copies of a bucket can be started so (rebalance: rebalance.h).
Task<Status> act_on_jobs(const Services& services, http::Request& request, Action action);

}  // namespace tarn::proxy
