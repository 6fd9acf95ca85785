#pragma once

#include "cli/commands.h"

namespace tarn::cli {

/// `tarn redundancy [BUCKET]`: objects by number of copies, counted now.
void add_redundancy_command(const CommandLine& line);

}  // namespace tarn::cli
