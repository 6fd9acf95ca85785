#pragma once

#include <cstdint>
#include <vector>

#include "common/base/async.h"
#include "common/http/router.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job_query.h"

namespace tarn::proxy {

/// The jobs that `query` is about, in the order they started; none for an unknown id. `progress`:
/// of those that run, their drivers are asked for it; else, and for a driver that does not answer,
/// it is that of the meta store. unavailable when it cannot be known whether there is a job of that
/// id.
enum class Progress : std::uint8_t { stored, fresh };
Task<Result<std::vector<Job>>> matching_jobs(const Services& services, JobQuery query,
                                             Progress progress);

/// Routes for other proxies: GET /v1/internal/jobs, for the internal listener.
[[nodiscard]] std::vector<http::Route> peer_job_routes(const Services& services);

}  // namespace tarn::proxy
