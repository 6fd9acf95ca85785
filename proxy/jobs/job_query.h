#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket.h"
#include "common/base/error.h"
#include "proxy/jobs/job.h"

namespace tarn::proxy {

/// Jobs that a client asks about: AIStore's query message (docs/api.md). Keys are
/// read in any case, "node" also as "DaemonID".
struct JobQuery {
  std::string id;
  std::string kind;
  std::string node;
  std::vector<api::Bucket> buckets;  ///< jobs from or to one of these; empty: all
  bool only_running = false;
  bool force = false;  ///< of a start: also what properties exclude
};
/// Reads a query from a JSON body; an empty body asks for all jobs. invalid_argument for another
/// body.
[[nodiscard]] Result<JobQuery> parse_job_query(const std::string& body);
/// Reads a query from JSON: the "value" of the actions start and stop has the same keys. Errors as
/// parse_job_query().
[[nodiscard]] Result<JobQuery> job_query_from(const nlohmann::json& message);

/// Returns the kind that AIStore shows under `name`, "copy-bck" for "copy-bucket"; `name` itself
/// when it is shown under no other.
[[nodiscard]] std::string kind_of(const std::string& name);
/// True if the query is about this job.
[[nodiscard]] bool matches(const Job& job, const JobQuery& query);
/// Returns the query's name in AIStore's errors: "x-summary-bck[abc]".
[[nodiscard]] std::string name_of(const JobQuery& query);

}  // namespace tarn::proxy
