#pragma once

#include <chrono>
#include <functional>

#include "common/base/async.h"

namespace tarn::cluster {

/// Rhythm of renewals.
struct RenewalRhythm {
  std::chrono::milliseconds every;
  std::chrono::milliseconds again;  ///< after one that failed
};

/// Calls `renew` at once and then at its time, whether or not the calls before have been answered,
/// at most four at a time: a slow store is no reason to ask less often. False: it shall be tried
/// again soon. Ends with all calls when cancelled, which `renew` must take as a value.
Task<void> renew_at_intervals(RenewalRhythm rhythm, std::function<Task<bool>()> renew);

}  // namespace tarn::cluster
