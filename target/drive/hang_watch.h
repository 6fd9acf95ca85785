#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace tarn::target {

/// Distinguishes a drive that hangs from one that is slow (docs/decisions/007). Shown once a second
/// what the drive has done. Pure.
class HangWatch {
 public:
  /// `hang_after`: seconds, and so looks a second apart, that a drive may do nothing while work
  /// waits for it.
  explicit HangWatch(std::chrono::seconds hang_after = kHangAfter) : hang_after_(hang_after) {}
  static constexpr std::chrono::seconds kHangAfter{10};
  /// A drive whose oldest work runs for less than this needs no look at its disk.
  static constexpr double kSlowSeconds = 1;

  struct Progress {
    double longest_run = 0;       ///< seconds that the oldest work has been running
    std::uint64_t completed = 0;  ///< work that has ended
    /// Operations of the disk below since the machine started, and those in flight. Where the
    /// kernel counts them they decide: a call may take long while the disk works, and what is in
    /// memory is served while it does not.
    struct Disk {
      std::uint64_t operations = 0;
      std::uint64_t in_flight = 0;
    };
    std::optional<Disk> disk;
  };
  /// True if the drive hangs.
  bool look(const Progress& progress);
  [[nodiscard]] std::chrono::seconds hang_after() const { return hang_after_; }

 private:
  std::chrono::seconds hang_after_;
  int looks_ = 0;  // in which nothing was done
  std::uint64_t completed_ = 0;
  std::uint64_t operations_ = 0;
};

}  // namespace tarn::target
