#pragma once

#include <chrono>

#include "common/base/async.h"

namespace tarn {

/// Waits for `time` on the loop of the calling coroutine. Ends early if that one is cancelled.
Task<void> pause(std::chrono::nanoseconds time);

/// As pause(), until `when`.
Task<void> pause_until(std::chrono::steady_clock::time_point when);

/// As pause(), for a random time of 1 ms to `most`: callers that collided do not collide again.
Task<void> pause_up_to(std::chrono::milliseconds most);

}  // namespace tarn
