#pragma once

#include <string>

#include "cli/commands/commands.h"

namespace tarn::cli {

/// cluster config get, set, reset
void add_config_commands(const CommandLine& line, CLI::App& cluster_group);
/// cluster set-primary, shutdown
void add_node_commands(const CommandLine& line, CLI::App& cluster_group);
/// cluster decommission
void add_decommission_command(const CommandLine& line, CLI::App& cluster_group);
/// The table of all nodes. `name`: of the command.
Exit print_nodes(Session& session, const std::string& name, bool json);
/// cluster rebalance start, stop, show
void add_rebalance_commands(const CommandLine& line, CLI::App& cluster_group);
/// node safe-to-stop
void add_safe_to_stop_command(const CommandLine& line, CLI::App& node_group);
/// node ls, maintenance, decommission, shutdown, remove-unsafe, join, safe-to-stop
void add_member_commands(const CommandLine& line);
void add_drive_commands(const CommandLine& line);  ///< drive ls, attach, detach, disable, enable

}  // namespace tarn::cli
