#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Limit of the bytes that pass in a second (a token bucket of a quarter of a second). It can be
/// changed at any time and counts from the next question on. Thread-safe.
class RateLimiter {
 public:
  static constexpr std::uint64_t kUnlimited = 0;

  void set(std::uint64_t bytes_per_second) { limit_ = bytes_per_second; }
  [[nodiscard]] std::uint64_t get() const { return limit_.load(); }

  /// Zero: `bytes` may pass now and are counted, however many they are. Otherwise nothing was
  /// counted, and this is how long it takes, by the present limit, until it is worth asking again.
  [[nodiscard]] std::chrono::nanoseconds take(std::uint64_t bytes, BootTime now) {
    const std::uint64_t limit = limit_.load();
    if (limit == kUnlimited) return {};
    const MutexLock lock(mutex_);
    const auto wait = wait_locked(static_cast<double>(limit), now);
    if (wait == std::chrono::nanoseconds::zero()) saved_ -= static_cast<double>(bytes);
    return wait;
  }
  /// As take(), but counts nothing.
  [[nodiscard]] std::chrono::nanoseconds wait(BootTime now) {
    const std::uint64_t limit = limit_.load();
    if (limit == kUnlimited) return {};
    const MutexLock lock(mutex_);
    return wait_locked(static_cast<double>(limit), now);
  }
  /// Counts bytes that pass after wait() returned zero.
  void spend(std::uint64_t bytes) {
    if (limit_.load() == kUnlimited) return;
    const MutexLock lock(mutex_);
    saved_ -= static_cast<double>(bytes);
  }
  /// Counts bytes that passed for another reason: the next caller waits for them, too, but no
  /// longer than a quarter of a second.
  void charge(std::uint64_t bytes) {
    const auto rate = static_cast<double>(limit_.load());
    const MutexLock lock(mutex_);
    saved_ = std::max(saved_ - static_cast<double>(bytes), std::min(saved_, -rate * kSavedSeconds));
  }

 private:
  std::chrono::nanoseconds wait_locked(double rate, BootTime now) TARN_REQUIRES(mutex_) {
    const double passed = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    saved_ = std::min(saved_ + std::max(passed, 0.0) * rate, rate * kSavedSeconds);
    if (saved_ > 0) return {};
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::duration<double>(-saved_ / rate)) +
           std::chrono::milliseconds(1);
  }

  static constexpr double kSavedSeconds = 0.25;
  std::atomic<std::uint64_t> limit_{kUnlimited};
  Mutex mutex_;
  // Bytes; below 0: owed, never more than was taken at once.
  double saved_ TARN_GUARDED_BY(mutex_) = 1.0;
  BootTime last_ TARN_GUARDED_BY(mutex_){};
};

/// Limits that an operator sets for rebalance, resilver and rebuild. Thread-safe.
struct MoveLimits {
  static constexpr std::uint64_t kWorkersMax = 64;
  static constexpr std::uint64_t kRebuildMin = 8U << 20U;  ///< of a drive
  /// Limit of all moves together.
  RateLimiter rate;
  /// Rate that a rebuild may have at least on each drive, whatever clients and other moves want, in
  /// bytes a second; 0: nothing.
  std::atomic<std::uint64_t> rebuild_min_of_drive{kRebuildMin};
  /// The same of all drives in service (rebuild_limits()).
  RateLimiter rebuild_min;
  /// Limit of what a rebuild may have at most, also below `rebuild_min`.
  RateLimiter rebuild_max;
  /// Objects at a time on each drive; 0: one on a rotational drive, whose head would be moved
  /// between them, and four on other drives.
  std::atomic<std::uint64_t> workers{0};
};

}  // namespace tarn::target
