#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tarn::obs {

/// Facts that Linux reports of a machine and a process in /proc (proc(5)). The parse functions are
/// pure; values that a text does not have are 0. The read functions open small files of /proc,
/// which do not wait for any drive.

/// A word that this start of the machine has and no other machine: without the newline.
[[nodiscard]] std::string read_boot_id();

struct Memory {  ///< bytes
  std::uint64_t total = 0;
  std::uint64_t free = 0;
  std::uint64_t available = 0;
  std::uint64_t buffers_and_cache = 0;
  std::uint64_t swap_total = 0;
  std::uint64_t swap_free = 0;
};
[[nodiscard]] Memory parse_meminfo(std::string_view text);
[[nodiscard]] Memory read_memory();

struct LoadAverage {
  double one = 0;
  double five = 0;
  double fifteen = 0;
};
[[nodiscard]] LoadAverage parse_loadavg(std::string_view text);
[[nodiscard]] LoadAverage read_load_average();

/// Of all cores together since the machine started, in clock ticks.
struct CpuTicks {
  std::uint64_t busy = 0;
  std::uint64_t total = 0;
};
[[nodiscard]] CpuTicks parse_cpu(std::string_view stat);
[[nodiscard]] CpuTicks read_cpu();

struct Process {
  std::uint64_t user_ms = 0;
  std::uint64_t system_ms = 0;
  std::uint64_t size = 0;      ///< bytes of address space
  std::uint64_t resident = 0;  ///< bytes
  std::uint64_t shared = 0;    ///< bytes
};
/// `stat` and `statm` of /proc/self.
[[nodiscard]] Process parse_process(std::string_view stat, std::string_view statm,
                                    std::uint64_t page_bytes, std::uint64_t ticks_a_second);
[[nodiscard]] Process read_process();

/// Of a block device since the machine started.
struct DiskCounters {
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t busy_ms = 0;
  std::uint64_t in_flight = 0;  ///< requests that it has now
};
/// By the name of the device, "nvme0n1".
[[nodiscard]] std::map<std::string, DiskCounters> parse_diskstats(std::string_view text);
[[nodiscard]] std::map<std::string, DiskCounters> read_disks();

}  // namespace tarn::obs
