#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"

namespace tarn::proxy {

/// Begins a job that has all targets look for missing data: slices of the coded objects that they
/// own, and copies that other targets lost with a drive. Ends when all that can be made are made.
/// Returns its id. conflict while one runs.
Task<Result<std::string>> start_rebuild(const Services& services);
/// Has all targets that are up stop all rebuilds, shown by a job or not. It holds as
/// RebuildWatch::stop() does. unavailable, naming it, when one of them did not take that.
Task<Status> stop_rebuild(const Services& services);
/// POST /v1/internal/rebuild?node=: that target makes objects whole, and a job shall show it. 409
/// while one does.
Task<Status> note_rebuild(const Services& services, http::Request& request);
/// Its work (Jobs::Drive): targets find the work on their drives, so a driver that begins it again
/// asks them to look once more. A target that was started again is asked so, too. Stopped, it stops
/// them.
Task<Status> drive_rebuild(const Services& services, Job job);

/// GET /v1/cluster?what=rebuild, Tarn's own: {"targets":{"ID":{..} or {"error":".."}},
/// "seconds_left","waits"}: each the answer of GET /v1/internal/rebuild; rebuild_seconds_left() and
/// sum_of_waits() of all.
Task<Result<http::Response>> tell_rebuild(const Services& services);

}  // namespace tarn::proxy
