#pragma once

#include "common/base/async.h"
#include "target/node/node.h"

namespace tarn::target {

/// Calls the primary, or any proxy that is up: POST `path_and_query`. Its errors as they came.
Task<Status> tell_proxy(TargetNode& node, std::string path_and_query);

/// Asks a proxy to begin the job that ResilverRequest wants, until one has taken it. For one loop;
/// runs until it is cancelled.
Task<void> request_jobs(TargetNode& node);

}  // namespace tarn::target
