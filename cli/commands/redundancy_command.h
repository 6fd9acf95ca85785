#pragma once

#include "cli/commands/commands.h"

namespace tarn::cli {

/// `tarn redundancy [BUCKET]`: objects and bytes by how much of each is there, counted now. Also
/// what the bucket survives, when all of it was last read, and the names of lost objects.
void add_redundancy_command(const CommandLine& line);

}  // namespace tarn::cli
