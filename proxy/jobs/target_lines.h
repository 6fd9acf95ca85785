#pragma once

#include <functional>
#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/cluster/state/state.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// A job that a target does while the proxy listens (target/node/job_stream.h).
struct TargetJob {
  std::string path;   ///< POST begins it, DELETE ?job=ID stops it
  std::string id;     ///< its id at the target
  std::string order;  ///< the body
};

/// Has the target do it and passes each line of its answer to `take`, which returns true for the
/// last one. Orders the target to stop, once, as soon as `should_stop` returns true; its last line
/// comes all the same. Errors: those of `take`, an answer of the target instead of lines,
/// unavailable and the like when it goes away.
Task<Status> follow_lines(const Services& services, const cluster::Node& target,
                          const TargetJob& job,
                          std::function<Result<bool>(const std::string& line)> take,
                          std::function<bool()> should_stop);

}  // namespace tarn::proxy
