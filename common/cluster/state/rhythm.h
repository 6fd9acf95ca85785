#pragma once

#include <chrono>

namespace tarn::cluster {

/// Intervals at which nodes report and ask the same thing while nothing changes. Their cost in a
/// large cluster stands in docs/scale.md, computed from these by tarn-simulate.

/// Term of a node's lease (`lease.term`) and the intervals that are parts of it. A value.
struct LeaseTerm {
  std::chrono::milliseconds term{4'000};

  /// A node's own count ends this long before the store's.
  [[nodiscard]] constexpr std::chrono::milliseconds margin() const { return term / 8; }
  /// Time between renewals, answered or not.
  [[nodiscard]] constexpr std::chrono::milliseconds renew_every() const { return term / 4; }
  /// Pause before a renewal that failed is tried again.
  [[nodiscard]] constexpr std::chrono::milliseconds retry_after() const { return term / 20; }
  /// Time between answered renewals, beyond which the log warns that they come late.
  [[nodiscard]] constexpr std::chrono::milliseconds late_after() const { return term / 2; }
  /// Time between requests to the meta store for the newest versions ...
  [[nodiscard]] constexpr std::chrono::milliseconds poll_every() const { return term / 4; }
};
/// ... and every so many times for everything, since the set of live nodes has no version.
inline constexpr int kPollsPerReload = 30;
/// Time between a target's messages on each stream of heartbeats.
inline constexpr std::chrono::milliseconds kHeartbeatEvery{1'000};

}  // namespace tarn::cluster
