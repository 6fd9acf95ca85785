#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace tarn::cli {

/// A file on a drive, and its size.
struct BenchFile {
  std::string path;
  std::uint64_t size = 0;
};

struct DriveRate {
  std::uint64_t bytes = 0;
  double seconds = 0;
  [[nodiscard]] double rate() const {
    return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  }
};

/// Asks the kernel to drop the files from memory. Returns the number of those that are still there:
/// reads of them would measure memory. Blocks.
[[nodiscard]] Result<std::uint64_t> make_cold(const std::vector<BenchFile>& files);

/// Reads the files one after the other from begin to end, as one reader in sequence. Blocks.
[[nodiscard]] Result<DriveRate> read_in_sequence(const std::vector<BenchFile>& files);

/// Reads every drive's files at the same time, one reader a drive. An element a drive, in order;
/// `seconds` is that of the whole. Blocks.
[[nodiscard]] Result<std::vector<DriveRate>> read_drives(
    const std::vector<std::vector<BenchFile>>& drives, double& seconds);

/// Time that the processors of this machine have worked and could have worked, in ticks.
struct ProcessorTime {
  std::uint64_t busy = 0;
  std::uint64_t all = 0;
  /// The first line of /proc/stat: "cpu  USER NICE SYSTEM IDLE IOWAIT ...". Zero for anything else.
  [[nodiscard]] static ProcessorTime parse(std::string_view line);
  [[nodiscard]] static ProcessorTime now();
};
[[nodiscard]] double busy_share(const ProcessorTime& before, const ProcessorTime& after);

/// The fastest network port of this machine, in bytes a second; 0 if unknown to the kernel.
[[nodiscard]] double network_rate();

/// Measured values. Rates in bytes a second, 0 if not measured.
struct BenchFigures {
  double drives = 0;
  double through_tarn = 0;
  double processor_share = 0;  ///< of this machine, while it read through Tarn
  double network = 0;
  bool on_this_machine = false;  ///< bytes went over the loopback, not through a port
};
/// "drive", "network", "processor" or "none": the limit of the rate through Tarn, as far as the
/// figures show it. Pure.
[[nodiscard]] std::string what_binds(const BenchFigures& figures);

}  // namespace tarn::cli
