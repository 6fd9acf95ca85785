#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket_copy.h"

namespace tarn::api {

/// What one target has done so far of a rebalance (what it gives to other targets) or a resilver
/// (what it moves between its drives). Its JSON has all keys of CopyProgress, so that who reads the
/// lines of a bucket copy can read these.
struct MoveProgress {
  std::string kind;               ///< AIStore's: "rebalance" or "resilver"
  std::uint64_t map_version = 0;  ///< of the ownership that it follows; 0 for a resilver
  /// `objects` and `bytes` were moved; `deleted` records are here no more; `failed` names could not
  /// be moved in the round that ended the job.
  CopyProgress counts;
  std::uint64_t left_names = 0;  ///< estimate of what is still to be moved, deletes too
  std::uint64_t left_bytes = 0;
  bool clean = false;  ///< when done: no record here belongs elsewhere

  bool operator==(const MoveProgress&) const = default;
};
void to_json(nlohmann::json& out, const MoveProgress& progress);
void from_json(const nlohmann::json& in, MoveProgress& progress);

}  // namespace tarn::api
