#pragma once

#include <cstdint>
#include <stop_token>

#include "common/base/async.h"
#include "common/base/error.h"
#include "target/moves.h"

namespace tarn::target {

/// What a walk obeys before each block that it moves. For the walk's loop.
struct Pace {
  MoveLimits& limits;
  const Moves::Walk& walk;
  Clock& clock;
  std::stop_token stop;

  /// cancelled when it was told to stop, conflict when another walk takes over.
  [[nodiscard]] Status go_on() const;
  /// Waits until `bytes` may pass. Errors as go_on().
  Task<Status> pass(std::uint64_t bytes) const;
};

}  // namespace tarn::target
