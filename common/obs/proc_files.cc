#include "common/obs/proc_files.h"

#include <fstream>
#include <sstream>
#include <unistd.h>
#include <vector>

namespace tarn::obs {
namespace {

constexpr std::uint64_t kSectorBytes = 512;  // whatever the device's own sectors are

std::string read(const char* path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

std::uint64_t at(const std::vector<std::uint64_t>& numbers, std::size_t index) {
  return index < numbers.size() ? numbers[index] : 0;
}

std::vector<std::uint64_t> numbers_of(std::istream& in) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t number = 0; in >> number;) out.push_back(number);
  return out;
}

}  // namespace

Memory parse_meminfo(std::string_view text) {
  Memory out;
  std::istringstream in{std::string(text)};
  std::string key;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::uint64_t kib = 0;
    words >> key >> kib;
    const std::uint64_t bytes = kib * 1024;
    if (key == "MemTotal:") out.total = bytes;
    if (key == "MemFree:") out.free = bytes;
    if (key == "MemAvailable:") out.available = bytes;
    if (key == "Buffers:" || key == "Cached:") out.buffers_and_cache += bytes;
    if (key == "SwapTotal:") out.swap_total = bytes;
    if (key == "SwapFree:") out.swap_free = bytes;
  }
  return out;
}

LoadAverage parse_loadavg(std::string_view text) {
  LoadAverage out;
  std::istringstream in{std::string(text)};
  in >> out.one >> out.five >> out.fifteen;
  return out;
}

CpuTicks parse_cpu(std::string_view stat) {
  std::istringstream in{std::string(stat.substr(0, stat.find('\n')))};
  std::string word;
  in >> word;
  CpuTicks out;
  if (word != "cpu") return out;
  // user nice system idle iowait irq softirq steal; guest time is in user's already
  const auto numbers = numbers_of(in);
  for (std::size_t i = 0; i < 8; ++i) out.total += at(numbers, i);
  out.busy = out.total - at(numbers, 3) - at(numbers, 4);
  return out;
}

Process parse_process(std::string_view stat, std::string_view statm, std::uint64_t page_bytes,
                      std::uint64_t ticks_a_second) {
  Process out;
  // The name stands in parentheses and may itself have some.
  const auto end_of_name = stat.rfind(')');
  if (end_of_name != std::string_view::npos && ticks_a_second > 0) {
    std::istringstream in{std::string(stat.substr(end_of_name + 1))};
    std::string skipped;
    for (int field = 3; field < 14; ++field) in >> skipped;
    const auto numbers = numbers_of(in);
    out.user_ms = at(numbers, 0) * 1000 / ticks_a_second;
    out.system_ms = at(numbers, 1) * 1000 / ticks_a_second;
  }
  std::istringstream in{std::string(statm)};
  const auto pages = numbers_of(in);
  out.size = at(pages, 0) * page_bytes;
  out.resident = at(pages, 1) * page_bytes;
  out.shared = at(pages, 2) * page_bytes;
  return out;
}

std::map<std::string, DiskCounters> parse_diskstats(std::string_view text) {
  std::map<std::string, DiskCounters> out;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::uint64_t major = 0;
    std::uint64_t minor = 0;
    std::string name;
    if (!(words >> major >> minor >> name)) continue;
    const auto numbers = numbers_of(words);
    out[name] = {at(numbers, 0), at(numbers, 2) * kSectorBytes,
                 at(numbers, 4), at(numbers, 6) * kSectorBytes,
                 at(numbers, 9), at(numbers, 8)};
  }
  return out;
}

std::string read_boot_id() {
  std::string text = read("/proc/sys/kernel/random/boot_id");
  return text.substr(0, text.find('\n'));
}
Memory read_memory() { return parse_meminfo(read("/proc/meminfo")); }
LoadAverage read_load_average() { return parse_loadavg(read("/proc/loadavg")); }
CpuTicks read_cpu() { return parse_cpu(read("/proc/stat")); }
Process read_process() {
  return parse_process(read("/proc/self/stat"), read("/proc/self/statm"),
                       static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
                       static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)));
}
std::map<std::string, DiskCounters> read_disks() {
  return parse_diskstats(read("/proc/diskstats"));
}

}  // namespace tarn::obs
