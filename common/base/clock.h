#pragma once

#include <atomic>
#include <chrono>

namespace tarn {

/// A point on CLOCK_BOOTTIME: monotonic, and counts while the machine sleeps, as leases need.
using BootTime = std::chrono::nanoseconds;
/// Wall-clock time since the epoch; for people and headers, never for ordering.
using WallTime = std::chrono::nanoseconds;

/// Source of time, so that tests can move it by hand. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual BootTime boot_time() const = 0;
  [[nodiscard]] virtual WallTime wall_time() const = 0;
};

/// The machine's clocks.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] BootTime boot_time() const override;
  [[nodiscard]] WallTime wall_time() const override;
};

/// A clock that stands still until advance() is called.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] BootTime boot_time() const override { return BootTime(now_.load()); }
  [[nodiscard]] WallTime wall_time() const override { return WallTime(now_.load()); }
  void advance(std::chrono::nanoseconds by) { now_ += by.count(); }

 private:
  std::atomic<std::int64_t> now_{1'000'000'000'000};
};

/// The process-wide system clock.
[[nodiscard]] Clock& system_clock();

}  // namespace tarn
