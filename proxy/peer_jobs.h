#pragma once

#include <string>
#include <vector>

#include "common/base/async.h"
#include "common/http/router.h"
#include "proxy/jobs.h"
#include "proxy/services.h"

namespace tarn::proxy {

/// The jobs of this proxy and of all others that live. A job is held by the proxy that was asked
/// for it, and goes with it; any proxy may be asked what it does.
struct KnownJobs {
  std::vector<Job> jobs;   ///< in the order they started
  std::string unanswered;  ///< why a live proxy could not tell; empty when all did

  /// What it means that a job is not among them: not_found, or unavailable when not all have told.
  [[nodiscard]] Error missing(Error not_found) const;
};
Task<KnownJobs> all_jobs(const Services& services);

/// What other proxies ask for: GET /v1/internal/jobs, for the internal listener.
[[nodiscard]] std::vector<http::Route> peer_job_routes(const Services& services);

}  // namespace tarn::proxy
