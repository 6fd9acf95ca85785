#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"

namespace tarn::proxy {

/// Work that each of some targets has to do for a job.
struct TargetWork {
  /// On the internal listener: POST begins a part and answers with lines of CopyProgress until it
  /// has ended (target/node/job_stream.h), DELETE ?job=ID stops it.
  std::string path;
  /// Body of the POST; "job" is added, and "again": true if some of it may have been done before.
  nlohmann::json order = nlohmann::json::object();
  std::vector<std::string> targets = {};  ///< ids
  bool continue_on_error = false;         ///< other parts go on when one has failed
};

/// Has the targets do their parts and takes their reports into the job, until all have ended. A
/// target that is away, or cannot do its part now, is asked again until it has made no progress for
/// `job.patience`; the obstacle is the error then. When the job is to stop, so are the targets.
/// When another proxy drives it now, this ends at once.
Task<Status> work_on_targets(const Services& services, const Job& job, TargetWork work);

/// Waits until no name is on its way to another target. unavailable when a target stays away for
/// longer than `job.patience` meanwhile, cancelled when the job is to stop.
Task<Status> wait_until_in_place(const Services& services, std::string job);

}  // namespace tarn::proxy
