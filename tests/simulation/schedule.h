#pragma once

#include <cstdint>
#include <string>

namespace tarn::simulation {

/// Result of one schedule.
struct Outcome {
  std::string violation;  ///< empty: none
  std::string details;    ///< with a violation: the faults and the operations on the name
  std::uint64_t events = 0;
  std::uint64_t operations = 0;  ///< acknowledged or answered
  std::uint64_t map_versions = 0;
  std::uint64_t copies = 0;  ///< records that moved
};

/// Runs the schedule of this seed on a cluster of two to five targets. Faults last for about half a
/// minute of its own time. Then it waits until all has converged, and checks everything.
[[nodiscard]] Outcome run_schedule(std::uint64_t seed, bool trace);

}  // namespace tarn::simulation
