#pragma once

#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"

// AIStore's ec-encode: a bucket's objects are kept by its present properties, be it in slices, in
// other ones, or in none any more. Targets do so unasked (target/repair/keep_recoded.h): the job
// shows their progress, and ends when all is done.
namespace tarn::proxy {

/// Begins one; its id. `changed`: the bucket's coding has just become another one.
/// bucket_not_found.
Task<Result<std::string>> start_recode(const Services& services, api::Bucket name, bool changed);
/// Its work (Jobs::Drive).
Task<Status> drive_recode(const Services& services, Job job);

}  // namespace tarn::proxy
