#pragma once

#include <cstdint>

namespace tarn {

/// Memory that this process may fill, page cache included, in bytes: the machine's, or less by the
/// limit of a cgroup (version 1 or 2) of the process or above it. Read from /proc and
/// /sys/fs/cgroup at each call.
[[nodiscard]] std::uint64_t memory_limit();

}  // namespace tarn
