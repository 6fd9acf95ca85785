#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

#include "common/base/clock.h"

namespace tarn::target {

/// Bytes a second of work since it began, in which the last 30 seconds count for two thirds. Pauses
/// lower it as they go on. A value; not thread-safe.
class RecentRate {
 public:
  /// Shorter times mean nothing.
  static constexpr std::chrono::seconds kLeast{1};
  static constexpr std::chrono::seconds kRecent{30};

  RecentRate() = default;
  explicit RecentRate(BootTime began) : began_(began), marks_{{began, 0}} {}

  /// Counts bytes of the work that were done at `now`, which is never earlier than before.
  void add(std::uint64_t bytes, BootTime now);
  /// Returns bytes a second up to `now`; 0 before kLeast.
  [[nodiscard]] double at(BootTime now) const;

 private:
  struct Mark {
    BootTime at{};
    std::uint64_t before = 0;  // bytes up to then
  };

  BootTime began_{};
  std::uint64_t bytes_ = 0;
  std::deque<Mark> marks_;  // one a second at most; the first is older than kRecent, or the start
};

}  // namespace tarn::target
