#pragma once

#include <chrono>
#include <functional>

#include "common/base/async.h"
#include "common/http/loops.h"
#include "common/obs/metrics.h"

namespace tarn::http {

/// Runs `work` every `period` until cancelled. `work` must not block.
Task<void> every(std::chrono::milliseconds period, std::function<void()> work);

/// Notices event loops that something held up: on each runs a timer every 10 ms, and one that fires
/// more than 20 ms late is counted as a stall (so every stall of 30 ms is, and most of 20). Exports
/// tarn_loop_stalls_total{loop} and tarn_loop_stall_seconds_total{loop}.
/// `metrics` and `loops` must outlive the tasks of `group`, in which the timers run.
void watch_loops(obs::Metrics& metrics, Loops& loops, TaskGroup& group);

}  // namespace tarn::http
