#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace tarn::io {

/// The file system that a directory lies on, as AIStore's clients show it.
struct MountInfo {
  std::string device;  ///< "/dev/nvme0n1p2"
  std::string type;    ///< "xfs"
  std::string disk;    ///< "nvme0n1": as in /proc/diskstats; empty where there is none (tmpfs)
  std::string id;      ///< statfs' f_fsid: two signed numbers with a comma between
};
/// Asks statfs, /proc/self/mountinfo and /sys; blocks for as long as they do. io if the path cannot
/// be read.
[[nodiscard]] Result<MountInfo> mount_info(const std::string& path);

/// The line of /proc/self/mountinfo that `path` belongs to: device and type of the longest mount
/// point above it; empty when there is none.
[[nodiscard]] MountInfo find_mount(std::string_view mountinfo, std::string_view path);

}  // namespace tarn::io
