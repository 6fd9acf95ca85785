#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "common/base/ids.h"

namespace tarn::proxy {

// Time since which all files have been read and compared, by the targets' reports of their scrubs:
// {"ID":{"drives":{"PATH":{..}}} or {"error":".."}}. Times are Unix, in ns. Pure.

/// Returns a time: all that was stored before it has been read since, on all drives. None if one
/// has never been read whole, or a target does not answer. `now_ns` where there is no drive.
[[nodiscard]] std::optional<std::int64_t> oldest_verified(const nlohmann::json& targets,
                                                          std::int64_t now_ns);
/// The same of one bucket. Drives are read bucket by bucket, in the order of their ids: those that
/// the present pass is done with have been read since it began.
[[nodiscard]] std::optional<std::int64_t> oldest_verified(const nlohmann::json& targets,
                                                          BucketId bucket, std::int64_t now_ns);
/// The same, but of a drive on which all of the bucket has not been read once yet when its first
/// pass began. None if one has never begun.
[[nodiscard]] std::optional<std::int64_t> unverified_since(const nlohmann::json& targets,
                                                           BucketId bucket, std::int64_t now_ns);

}  // namespace tarn::proxy
