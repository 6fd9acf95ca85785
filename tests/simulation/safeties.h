#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tarn::simulation {

/// A safety of common/cluster or of the model, that can be left out to see whether schedules
/// notice. Two that no known schedule misses are not in the table, but can be named:
/// safety.lease_before_reply and safety.compare_status. The program has its own registry of fail
/// points: the one of the nodes prints each hit.
struct Safety {
  std::string_view name;
  std::string_view removed;  ///< what is then left out
  /// The schedule to begin with when few miss it; 0: any will do. A change of the model gives each
  /// seed another schedule, and a new one must be looked for with --without.
  std::uint64_t seed = 0;
};
[[nodiscard]] std::span<const Safety> safeties();
/// Leaves out this one only; empty: none.
void leave_out(std::string_view name);
/// How often it has been left out since leave_out().
[[nodiscard]] std::uint64_t left_out_count();

}  // namespace tarn::simulation
