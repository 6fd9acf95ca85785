#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/api/move_progress.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Progress of handoff(), and the one setting that it obeys. Thread-safe.
class HandoffProgress {
 public:
  /// Setting rebalance.enabled: whether names move without being asked for.
  std::atomic<bool> enabled = true;

  void set_state(std::uint64_t map_version, api::MoveReport::State state);
  /// A walk begins, goes on, has ended.
  void begin(std::uint64_t map_version, const Clock& clock);
  void update(const api::MoveProgress& progress, const Clock& clock);
  void end(const api::MoveProgress& progress, const Clock& clock);

  [[nodiscard]] api::MoveReport report() const;

 private:
  void take(const api::MoveProgress& progress, BootTime now) TARN_REQUIRES(mutex_);

  mutable Mutex mutex_;
  api::MoveReport report_ TARN_GUARDED_BY(mutex_);
  BootTime last_ TARN_GUARDED_BY(mutex_){};  // of the walk's last update
  std::uint64_t last_bytes_ TARN_GUARDED_BY(mutex_) = 0;
  double rate_ TARN_GUARDED_BY(mutex_) = 0;
};

}  // namespace tarn::target
