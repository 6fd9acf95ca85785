#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "common/api/move_progress.h"
#include "common/base/clock.h"

namespace tarn::target {

/// Progress of handoff(), and the one setting that it obeys. Thread-safe.
class HomeMoves {
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
  void take(const api::MoveProgress& progress, BootTime now);

  mutable std::mutex mutex_;  // guards what follows
  api::MoveReport report_;
  BootTime last_{};  // of the walk's last update
  std::uint64_t last_bytes_ = 0;
  double rate_ = 0;
};

}  // namespace tarn::target
