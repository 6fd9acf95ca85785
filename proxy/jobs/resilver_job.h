#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"

namespace tarn::proxy {

/// Begins a job that moves misplaced objects of target `node` to the right drives
/// (target/rebalance/resilver.h); its id. invalid_argument for a node that is no target.
Task<Result<std::string>> start_resilver(const Services& services, std::string node);
/// POST /v1/internal/resilver?node=&job=: target `node` wants such a job, of that id. Again the
/// same is fine, also when it has ended; 409 while another one runs there.
Task<Status> note_resilver(const Services& services, http::Request& request);
/// Its work (Jobs::Drive): a resilver that begins again finds moved objects at their place.
Task<Status> drive_resilver(const Services& services, Job job);

}  // namespace tarn::proxy
