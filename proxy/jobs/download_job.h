#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"

namespace tarn::proxy {

/// Drives a job of kind "download": hands out its objects to the targets that own their names, in
/// portions, until each has been fetched, was there already, or failed. An object that fails does
/// not end the job. Begun again it goes through all objects once more, of which those that are
/// there are skipped.
Task<Status> drive_download(const Services& services, Job job);

}  // namespace tarn::proxy
