#pragma once

#include "cli/commands/commands.h"

namespace tarn::cli {

/// `tarn redundancy [BUCKET]`: objects and bytes by how much of each is there, counted now, what
/// the bucket survives, when all of it was last read, and the names of what is lost.
void add_redundancy_command(const CommandLine& line);

}  // namespace tarn::cli
