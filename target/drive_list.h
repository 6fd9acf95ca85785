#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace tarn::target {

/// What operators have said about the drives of a target while it ran, beside --drive: paths. Kept
/// in `drives.json` of the target's directory:
///
///   {"attached":[..],"detached":[..],"disabled":[..]}
struct DriveList {
  std::set<std::string> attached;  ///< used although no --drive says so
  std::set<std::string> detached;  ///< not used, whatever --drive says
  std::set<std::string> disabled;  ///< out of service until they are enabled

  bool operator==(const DriveList&) const = default;

  /// The drives to open, where `flags` are those of --drive.
  [[nodiscard]] std::vector<std::string> apply_to(const std::vector<std::string>& flags) const;
};

/// corrupt, naming the file, when it cannot be understood.
[[nodiscard]] Result<DriveList> load_drive_list(const std::filesystem::path& directory);
/// In one step, synced.
Status save_drive_list(const std::filesystem::path& directory, const DriveList& list);

}  // namespace tarn::target
