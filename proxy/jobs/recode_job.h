#pragma once

#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"

// AIStore's ec-encode: a bucket's objects are kept as its properties say by now, whether these ask
// for slices, for other ones, or for none any more. Targets do so unasked
// (target/repair/keep_recoded.h): the job shows how far they are, and ends when nothing is left to
// be done.
namespace tarn::proxy {

/// Begins one; its id. `changed`: the bucket's coding has just become another one.
/// bucket_not_found.
Task<Result<std::string>> start_recode(const Services& services, api::Bucket name, bool changed);
/// Its work (Jobs::Drive).
Task<Status> drive_recode(const Services& services, Job job);

}  // namespace tarn::proxy
