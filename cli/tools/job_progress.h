#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/progress.h"
#include "cli/base/session.h"

namespace tarn::cli {

/// A job as the cluster reports it.
struct JobStatus {
  std::string id;
  std::string kind;
  std::string error;  ///< reason of its failure
  bool aborted = false;
  std::int64_t ended_ns = 0;  ///< wall clock; 0 while it runs

  /// "running", "done", "aborted" or "failed".
  [[nodiscard]] std::string state() const;
};

/// Work that one target, or all together, did for a job.
struct JobFigures {
  std::string target;  ///< its id; empty: all together
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  bool ended = false;
};

/// A job with the work of its targets.
struct JobDetails {
  JobStatus status;
  std::string about;    ///< its work, in a few words
  std::string started;  ///< RFC 3339
  std::string abort_reason;
  JobFigures sum;
  std::vector<JobFigures> targets;
  std::optional<double> seconds_left;  ///< if the cluster reports it

  /// Reason if it ended without its work done; else empty.
  [[nodiscard]] std::string complaint() const;
};

/// All jobs of a kind (empty: of any), those that run or `ended` ones too, in the order they began.
Task<Result<std::vector<JobStatus>>> list_jobs(Session& session, std::string kind, bool ended);
/// not_found when the cluster does not know it.
Task<Result<JobDetails>> job_details(Session& session, std::string id);
/// Waits until it has ended, however; shows its bytes on `meter`, if given. timeout at `until`.
Task<Result<JobDetails>> wait_for_job(
    Session& session, std::string id, Meter* meter,
    std::optional<std::chrono::steady_clock::time_point> until = {});

}  // namespace tarn::cli
