#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/error.h"
#include "proxy/jobs/job.h"
#include "proxy/jobs/job_query.h"

namespace tarn::proxy {

// Answers to queries about jobs, from all jobs in the order they started. Pure.

/// what=status: the job of that id, or the last one of that kind. not_found when there is none;
/// invalid_argument without either.
[[nodiscard]] Result<nlohmann::json> job_status(const std::vector<Job>& jobs,
                                                const JobQuery& query);
/// what=status_all: the jobs that match, running or ended.
[[nodiscard]] nlohmann::json job_status_all(const std::vector<Job>& jobs, const JobQuery& query);
/// what=running_all: "kind[id]" of those that run.
[[nodiscard]] nlohmann::json running_jobs(const std::vector<Job>& jobs, const JobQuery& query);
/// what=qryxstats: each target's part of each matching job. not_found for an id that is not known.
[[nodiscard]] Result<nlohmann::json> job_snaps(const std::vector<Job>& jobs, const JobQuery& query,
                                               const std::vector<std::string>& targets);

}  // namespace tarn::proxy
