#pragma once

#include <chrono>

namespace tarn::cluster {

/// How often nodes say and ask the same thing while nothing changes. What that comes to in a large
/// cluster stands in docs/scale.md, computed from these by tarn-simulate.

/// A node renews its lease, answered or not.
inline constexpr std::chrono::milliseconds kRenewEvery{1'000};
/// A node asks the meta store for the newest versions ...
inline constexpr std::chrono::milliseconds kPollEvery{1'000};
/// ... and every so many times for everything, since the set of live nodes has no version.
inline constexpr int kPollsPerReload = 30;
/// A target says on each stream of heartbeats that it lives.
inline constexpr std::chrono::milliseconds kHeartbeatEvery{1'000};

}  // namespace tarn::cluster
