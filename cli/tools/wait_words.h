#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tarn::cli {

/// Returns a line for each reason of "waits", as what=rebuild and what=redundancy have it: "12
/// objects wait for t[ID], which has been down for 3m; it is out in 12m". Made safe for a terminal.
/// Throws nlohmann::json::exception if it is malformed.
[[nodiscard]] std::vector<std::string> lines_of_waits(const nlohmann::ordered_json& waits);

}  // namespace tarn::cli
