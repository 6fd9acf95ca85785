#pragma once

#include <functional>

#include "common/base/async.h"
#include "common/base/error.h"

namespace tarn::cluster {

/// Waits at a node's start for a meta store that may not be there yet: calls `attempt` again and
/// again, 0.2 s apart, until it works, fails for an error that no repetition mends (anything but
/// unavailable, timeout and not_found: no cluster yet), or the process is asked to end (cancelled).
/// Logs the first reason to wait, and each new one.
Task<Status> patiently(std::function<Task<Status>()> attempt);

}  // namespace tarn::cluster
