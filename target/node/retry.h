#pragma once

#include <chrono>
#include <stop_token>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/pause.h"

namespace tarn::target {

/// True if a job should try again what failed with `error`. An unavailable service (a drive with
/// too much work, a target that starts again) is tried again after 0.25, 0.5, 1, 2 and 4 s. Waits
/// before it returns, and counts in `attempts`; false as soon as `stop` is requested.
inline Task<bool> try_again(Error error, int& attempts, std::stop_token stop) {
  using namespace std::chrono_literals;
  constexpr int kRetriesMax = 5;
  if (error.code != Errc::unavailable && error.code != Errc::timeout &&
      error.code != Errc::disconnected)
    co_return false;
  if (attempts >= kRetriesMax) co_return false;
  const auto until = std::chrono::steady_clock::now() + 250ms * (1 << attempts++);
  while (std::chrono::steady_clock::now() < until && !stop.stop_requested()) {
    co_await pause(50ms);
  }
  co_return !stop.stop_requested();
}

}  // namespace tarn::target
