#pragma once

#include <chrono>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/async.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// The JSON object that a node answered with, or {"error":".."}.
[[nodiscard]] nlohmann::json report_in(const Result<http::ClientResponse>& answer);

/// {"ID": the JSON that each target in the map answers to a GET on its internal listener, or
/// {"error":".."}}. All at once; one that is silent for `patience` has an error.
Task<nlohmann::json> ask_targets_for(const Services& services, std::string path,
                                     std::chrono::seconds patience = std::chrono::seconds(2));

}  // namespace tarn::proxy
