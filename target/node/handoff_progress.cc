#include "target/node/handoff_progress.h"

#include <cmath>

namespace tarn::target {
namespace {

/// The rate is a mean in which what is this old counts a third of what is new.
constexpr double kHandoffMeanSeconds = 3;

}  // namespace

void HandoffProgress::set_state(std::uint64_t map_version, api::MoveReport::State state) {
  const MutexLock lock(mutex_);
  report_.map_version = map_version;
  report_.state = state;
}

void HandoffProgress::begin(std::uint64_t map_version, const Clock& clock) {
  const MutexLock lock(mutex_);
  report_ = {};
  report_.map_version = report_.walk.map_version = map_version;
  report_.walk.kind = "rebalance";
  report_.state = api::MoveReport::State::walking;
  report_.started_ns = clock.wall_time().count();
  last_ = clock.boot_time();
  last_bytes_ = 0;
  rate_ = 0;
}

void HandoffProgress::update(const api::MoveProgress& progress, const Clock& clock) {
  const MutexLock lock(mutex_);
  take(progress, clock.boot_time());
}

void HandoffProgress::end(const api::MoveProgress& progress, const Clock& clock) {
  const MutexLock lock(mutex_);
  take(progress, clock.boot_time());
  report_.ended_ns = clock.wall_time().count();
  report_.rate = 0;
  report_.state = api::MoveReport::State::waiting;
}

void HandoffProgress::take(const api::MoveProgress& progress, BootTime now) {
  const double seconds = std::chrono::duration<double>(now - last_).count();
  if (seconds > 0) {
    const double since = static_cast<double>(progress.counts.bytes - last_bytes_) / seconds;
    // The first seconds of a walk count as much as they are.
    const bool first = last_bytes_ == 0;
    rate_ = first ? since : since + (rate_ - since) * std::exp(-seconds / kHandoffMeanSeconds);
    last_ = now;
    last_bytes_ = progress.counts.bytes;
  }
  report_.walk = progress;
  report_.rate = static_cast<std::uint64_t>(rate_);
}

api::MoveReport HandoffProgress::report() const {
  const MutexLock lock(mutex_);
  return report_;
}

}  // namespace tarn::target
