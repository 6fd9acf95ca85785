#pragma once

#include <chrono>
#include <functional>

#include "common/base/async.h"
#include "common/http/loops.h"
#include "common/obs/metrics.h"

namespace tarn::http {

/// Runs `work` every `period` until cancelled. `work` must not block.
Task<void> every(std::chrono::milliseconds period, std::function<void()> work);

/// Notices event loops that are held up. A timer runs on each: every 10 ms while the loop works,
/// else every second. One that fires more than 20 ms late is counted as a stall. So of a loop that
/// works every stall of 30 ms is counted, and most of 20 ms; of an idle one those that a look falls
/// into. Exports tarn_loop_stalls_total{loop} and tarn_loop_stall_seconds_total{loop}. Each loop
/// passes fail point loop.turn.NAME at every look. `metrics` and `loops` must outlive the tasks of
/// `group`, in which the timers run.
void watch_loops(obs::Metrics& metrics, Loops& loops, TaskGroup& group);

/// Time for which the loop that is held up longest has not come round. Only after watch_loops().
/// Any thread.
[[nodiscard]] std::chrono::nanoseconds longest_silence(Loops& loops);

}  // namespace tarn::http
