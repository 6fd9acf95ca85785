#pragma once

#include <map>
#include <string>

#include "common/cluster/node/node_config.h"
#include "target/drives/options.h"
#include "target/node/node.h"

namespace tarn::target {

/// Settings that a target was started with, as NodeConfig wants them.
[[nodiscard]] std::map<std::string, std::string> started_with(const Options& options);

/// Has changes of the settings that only targets have act: space.*, checksum.verify,
/// append.timeout. `node` must outlive `config`'s last change.
void act_on_settings(cluster::NodeConfig& config, const Options& options, TargetNode& node);

}  // namespace tarn::target
