#pragma once

#include <tl/expected.hpp>

#include "target/drives/options.h"

namespace tarn::target {

/// Options on the command line, checked, with absolute paths; the level of the log is set. An error
/// is the exit code: what was asked for (--help, --version, --help-settings), or what is wrong, has
/// been printed. Once, before other threads run.
[[nodiscard]] tl::expected<Options, int> parse_command_line(int argc, char** argv);

}  // namespace tarn::target
