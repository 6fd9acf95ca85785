#pragma once

#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"

namespace tarn::proxy {

/// Does the work of a job (Jobs::Drive), by its kind: the table of all kinds that Tarn has. A new
/// kind is a row there: a function of the services and the job's record that is safe to begin
/// again.
Task<Status> drive_job(const Services& services, Job job);

/// Reason why {"action":"start"} does not begin a job of this kind: it begins by another call,
/// belongs to later work, or is none.
[[nodiscard]] Error cannot_start(const std::string& kind);

}  // namespace tarn::proxy
