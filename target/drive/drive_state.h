#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tarn::target {

/// The state of a drive: the worst that is true of it. Each state allows at most what the one
/// before it does (rules_of).
enum class DriveState : std::uint8_t {
  up,
  slow,      ///< its disk needs several times as long as those of its siblings (SlowDrives)
  suspect,   ///< a write failed within the last minute
  draining,  ///< its files move to the other drives
  disabled,  ///< put out of service by an operator
  hung,      ///< does not answer (HangWatch)
  out,       ///< taken out after errors
  missing    ///< its path no longer leads to it
};

/// Use of a drive in one state.
struct DriveRules {
  bool takes_files;  ///< new files may come
  bool is_read;      ///< its files are read
  bool answers;      ///< its index can be asked, and what is under way there can end
};

/// Pure.
[[nodiscard]] constexpr DriveRules rules_of(DriveState state) {
  constexpr std::array<DriveRules, 8> kRules{{
      {true, true, true},     // up
      {true, true, true},     // slow
      {true, true, true},     // suspect
      {false, true, true},    // draining
      {false, false, true},   // disabled
      {false, false, false},  // hung
      {false, false, false},  // out
      {false, false, false},  // missing
  }};
  return kRules[static_cast<std::size_t>(state)];
}

/// The word that operators see: "draining".
[[nodiscard]] constexpr std::string_view to_string(DriveState state) {
  constexpr std::array<std::string_view, 8> kWords{"up",       "slow", "suspect", "draining",
                                                   "disabled", "hung", "out",     "missing"};
  return kWords[static_cast<std::size_t>(state)];
}

}  // namespace tarn::target
