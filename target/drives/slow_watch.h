#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/io/drive_kind.h"

namespace tarn::target {

/// Distinguishes a drive that takes several times as long as it should from those that merely have
/// much to do. Shown once a second what the disks below have done. Its measure is the time that a
/// disk was busy for each unit of work: a queue in front of it does not change that. A unit of work
/// is a request, or as many bytes as take as long as one. Pure; for one thread.
class SlowWatch {
 public:
  /// A drive that takes kTimes as long as usual is slow; below kWell times as long it is well
  /// again.
  static constexpr double kTimes = 5;
  static constexpr double kWell = 2.5;
  /// Requests that make a sample, and samples whose median counts.
  static constexpr std::uint64_t kSampleRequests = 4;
  static constexpr std::size_t kSamples = 5;
  /// Samples after which a drive that has no siblings is compared with itself before.
  static constexpr std::uint64_t kHistory = 60;

  /// Counters of the disk below a drive, since some moment in the past.
  struct Seen {
    io::DriveKind kind = io::DriveKind::solid;
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;
    std::uint64_t busy_ms = 0;
  };
  struct Change {
    std::string path;
    bool slow = false;
    double ms = 0;     ///< time of a unit of work now
    double usual = 0;  ///< time of one elsewhere, or before
  };
  /// `seen` by path: all drives whose disks are known. Which of them became slow, or well again;
  /// one that is no longer in `seen` is forgotten.
  std::vector<Change> look(const std::map<std::string, Seen>& seen);
  [[nodiscard]] const std::set<std::string>& slow() const { return slow_; }

 private:
  struct Drive {
    Seen last;
    std::deque<double> samples;  // ms, the newest last
    double history = 0;          // while it was well
    std::uint64_t history_samples = 0;
  };
  bool take_sample(Drive& drive, const Seen& now, bool well);
  [[nodiscard]] std::optional<double> usual(const std::string& path) const;

  std::map<std::string, Drive> drives_;
  std::set<std::string> slow_;
};

}  // namespace tarn::target
