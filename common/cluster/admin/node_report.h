#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/cluster/admin/node_stats.h"
#include "common/cluster/state/state.h"
#include "common/io/mount_info.h"

namespace tarn::cluster {

/// AIStore's clients read "major.minor" and warn when the major version is not theirs.
inline constexpr std::string_view kAistoreVersion = "5.0.tarn-" TARN_VERSION;

// AIStore's bits of a node's state.
inline constexpr std::uint64_t kFlagsHealthy = 6;  ///< cluster started, node started
inline constexpr std::uint64_t kFlagOutOfSpace = 1U << 8U;
inline constexpr std::uint64_t kFlagLowCapacity = 1U << 11U;
inline constexpr std::uint64_t kFlagDiskFault = 1U << 13U;

/// A drive of a target, as what=node_status, disk and mountpaths show it.
struct DriveReport {
  std::string path;
  std::string label;  ///< an operator's word for drives of its kind, "ssd"; mostly empty
  io::MountInfo mount;
  std::uint64_t used = 0;       ///< bytes
  std::uint64_t available = 0;  ///< bytes
  bool usable = true;           ///< false: taken out, disabled, or not there
  bool low = false;             ///< above its high watermark
  bool full = false;            ///< takes no new files
  bool disabled = false;        ///< by an operator: not usable, and no fault
  bool leaving = false;         ///< being detached
  std::string state = {};       ///< a word: "up", "slow", "draining", ..
  std::string note = {};        ///< reason if it is out of use, or another fault; empty: none
  /// Errors there since the node's start, by kind ("read", "write", "sync", "corrupt", "hang");
  /// kinds without any are left out.
  std::map<std::string, std::uint64_t> errors = {};
};

/// The bits of a node with these drives.
[[nodiscard]] std::uint64_t state_flags(const std::vector<DriveReport>& drives);

// The JSON of AIStore's answers (docs/api.md). Pure, but for sys_info_json,
// which reads /proc.

/// what=mountpaths of a node. Tarn's own are "states", path -> state, and, each when a drive has
/// any, "notes", path -> note, and "errors", path -> {kind -> count}.
[[nodiscard]] nlohmann::json mountpaths_json(const std::vector<DriveReport>& drives);
/// "capacity" of what=node_status, and with the drives' rates what=disk. Drives of one file system
/// count once in the totals.
[[nodiscard]] nlohmann::json capacity_json(const std::vector<DriveReport>& drives);
/// "cluster" of what=node_status, and the answer to /v1/health?cii=true.
[[nodiscard]] nlohmann::json cluster_info_json(const ClusterState& state, std::uint64_t flags);
/// "sys_info" of what=node_status, and what=sysinfo.
[[nodiscard]] nlohmann::json sys_info_json(const NodeStats& stats);
/// Sums of file systems, each once: {"fs_used", "fs_capacity", "pct_fs_used"}, which what=sysinfo
/// of a cluster adds to a target's sys_info.
[[nodiscard]] nlohmann::json file_systems_json(const std::vector<DriveReport>& drives);
/// The cluster's configuration (3.2): the parts that are true of Tarn, with `values` of the
/// settings: those of the cluster, or those in force on one node.
[[nodiscard]] nlohmann::json cluster_config_json(const ClusterState& state,
                                                 const ConfigValues& values);

}  // namespace tarn::cluster
