#pragma once

#include "common/base/async.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// POST /v1/download: begins a job that fetches files into a bucket, and answers its id.
Task<Status> begin_download(const Services& services, http::Request& request);
/// GET /v1/download: one job, by "id" of the body or query, or all whose descriptions match
/// "regex".
Task<Status> show_downloads(const Services& services, http::Request& request);
/// DELETE /v1/download/abort: stops a job, and answers when it has ended.
Task<Status> abort_download(const Services& services, http::Request& request);
/// DELETE /v1/download/remove: forgets a job that has ended.
Task<Status> remove_download(const Services& services, http::Request& request);

}  // namespace tarn::proxy
