#pragma once

#include "cli/commands.h"

namespace tarn::cli {

/// cluster config get, set, reset
void add_config_commands(const CommandLine& line, CLI::App& cluster_group);
/// cluster set-primary, shutdown
void add_node_commands(const CommandLine& line, CLI::App& cluster_group);
void add_drive_commands(const CommandLine& line);  ///< drive ls, attach, detach, disable, enable

}  // namespace tarn::cli
