#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/base/session.h"

namespace tarn::cli {

/// The drives of a cluster, as its targets name them.
struct ClusterDrives {
  std::vector<std::string> here;  ///< directories of this machine
  std::size_t elsewhere = 0;      ///< number on other machines, or named by a relative path
};

/// Asks every target for its drives in use. One is here if the directory of that name names that
/// target as its own. forbidden when it may be, but this user cannot look; unavailable when a
/// target does not answer.
Task<Result<ClusterDrives>> cluster_drives(Session& session);

}  // namespace tarn::cli
