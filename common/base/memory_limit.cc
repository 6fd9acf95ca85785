#include "common/base/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <fmt/format.h>

namespace tarn {
namespace {

std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : std::numeric_limits<std::uint64_t>::max();  // "max" is no number
}

std::uint64_t machine_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemTotal:") return kib * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::uint64_t>::max();
}

/// The least limit of a group and all above it.
std::uint64_t least_above(const std::string& root, std::string group, const std::string& file) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  while (true) {
    least = std::min(least, number_in(fmt::format("{}{}/{}", root, group, file)));
    const auto slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

}  // namespace

std::uint64_t memory_limit() {
  std::uint64_t limit = machine_memory();
  std::ifstream groups("/proc/self/cgroup");  // "7:memory:/a/b", version 2: "0::/a/b"
  std::string line;
  while (std::getline(groups, line)) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers.empty())
      limit = std::min(limit, least_above("/sys/fs/cgroup", group, "memory.max"));
    if (controllers == "memory")
      limit = std::min(limit, least_above("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
  }
  return limit;
}

}  // namespace tarn
