#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/error.h"
#include "proxy/job.h"

namespace tarn::proxy {

/// Which jobs a client asks about: AIStore's query message (aistore-api.md, section 3.4). Keys are
/// read in any case, "node" also as "DaemonID".
struct JobQuery {
  std::string id;
  std::string kind;
  std::string node;
  std::vector<api::Bucket> buckets;  ///< jobs from or to one of these; empty: all
  bool only_running = false;
  bool force = false;  ///< of a start: also what properties exclude
};
/// From the JSON body; an empty one asks for all. invalid_argument for what is none.
[[nodiscard]] Result<JobQuery> parse_job_query(const std::string& body);
/// The same from JSON: the "value" of the actions start and stop has the same keys.
[[nodiscard]] Result<JobQuery> job_query_from(const nlohmann::json& message);
[[nodiscard]] bool matches(const Job& job, const JobQuery& query);
/// "x-summary-bck[abc]": how AIStore names in errors what a query asks for.
[[nodiscard]] std::string name_of(const JobQuery& query);

// The answers, from all jobs in the order they started. Pure.

/// what=status: the job of that id, or the last one of that kind. not_found when there is none;
/// invalid_argument when neither is given.
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
