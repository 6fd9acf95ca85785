#pragma once

#include <functional>
#include <map>
#include <string>

#include "common/cluster/node/node_config.h"
#include "common/http/service_settings.h"

namespace tarn::cluster {

/// Settings with which proxy and target alike were started, as NodeConfig wants them.
[[nodiscard]] std::map<std::string, std::string> started_with(
    const http::ServiceSettings& settings);

/// Has changes of those settings act: log levels at once, all other settings through `changed`,
/// with all of them as they are now. `settings` are those of the start.
void act_on_service_settings(NodeConfig& config, const http::ServiceSettings& settings,
                             std::function<void(const http::ServiceSettings&)> changed);

}  // namespace tarn::cluster
