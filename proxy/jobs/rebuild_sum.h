#pragma once

#include <optional>
#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tarn::proxy {

/// Returns the number of seconds that the rebuild of the cluster takes from now on. At most it is
/// the longest time of a target, if all stay as fast as they are. At least it is the rest over the
/// sum of the rates, if targets that are done leave theirs, mostly reading, to the rest. Returned
/// is the geometric mean. None if a target has work of unknown duration, or one of `owners` does
/// not answer.
///
/// `reports`: by target, as GET /v1/internal/rebuild answers, or {"error":".."}. `owners`: ids of
/// the targets that own names. Pure. Throws nlohmann::json::exception for reports that are none.
[[nodiscard]] std::optional<double> rebuild_seconds_left(const nlohmann::json& reports,
                                                         const std::set<std::string>& owners);

}  // namespace tarn::proxy
