#pragma once

#include <chrono>

namespace tarn {

/// Draws a time from half of `most` to all of it: calls that failed together are not repeated
/// together. Thread-safe.
[[nodiscard]] std::chrono::milliseconds with_jitter(std::chrono::milliseconds most);

/// Pauses between tries of a call, each drawn by with_jitter(): of at most `first`, then of twice
/// as much, and so on up to `last`. Not thread-safe.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds last)
      : first_(first), last_(last), most_(first) {}

  /// Draws the pause before the next try.
  [[nodiscard]] std::chrono::milliseconds next();
  /// Begins again with `first`, after a success.
  void reset() { most_ = first_; }

 private:
  const std::chrono::milliseconds first_;
  const std::chrono::milliseconds last_;
  std::chrono::milliseconds most_;
};

}  // namespace tarn
