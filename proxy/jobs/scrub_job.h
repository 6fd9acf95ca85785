#pragma once

#include <nlohmann/json_fwd.hpp>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/message.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"

namespace tarn::proxy {

/// Begins a job that has the target `node`, or all that are up when it is empty, read all of their
/// drives now; its id. conflict while another one of them runs.
Task<Result<std::string>> start_scrub(const Services& services, std::string node);
/// Its work (Jobs::Drive): drives remember job and progress, so it goes on at its last position.
Task<Status> drive_scrub(const Services& services, Job job);

/// Reports of all targets about the scrubs of their drives, for scrub_ages.h.
Task<nlohmann::json> scrubs_told(const Services& services);

/// GET /v1/cluster?what=scrub, Tarn's own: {"oldest_verified_ns","bad","open","targets":{"ID":
/// {"drives":{"PATH":{..}}} or {"error":".."}}}, the first as oldest_verified() (scrub_ages.h) has
/// it, or null.
Task<Result<http::Response>> tell_scrub(const Services& services);

}  // namespace tarn::proxy
