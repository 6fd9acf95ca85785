#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tarn::target {

/// A limit of bytes in a second that several transfers share: each takes what it received, and
/// waits until that was due. Used on one loop.
class Pace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `bytes_per_second` 0: no limit.
  explicit Pace(std::uint64_t bytes_per_second) : rate_(bytes_per_second) {}

  /// Notes that `bytes` have come at `now`. Returns the time before which no more shall be read.
  [[nodiscard]] Time take(std::uint64_t bytes, Time now) {
    if (rate_ == 0) return now;
    const std::chrono::duration<double> due(static_cast<double>(bytes) /
                                            static_cast<double>(rate_));
    next_ = std::max(next_, now) + std::chrono::duration_cast<Time::duration>(due);
    return next_;
  }
  /// Most bytes to read at a time, so that no wait is much longer than a quarter of a second.
  [[nodiscard]] std::size_t piece(std::size_t most) const {
    if (rate_ == 0) return most;
    return static_cast<std::size_t>(
        std::clamp<std::uint64_t>(rate_ / 4, std::min<std::uint64_t>(most, 256), most));
  }
  [[nodiscard]] bool is_limited() const { return rate_ > 0; }

 private:
  std::uint64_t rate_;
  Time next_{};
};

}  // namespace tarn::target
