#pragma once

#include <string>

#include "common/base/error.h"

namespace tarn::cli {

/// Asks "<question>? [y/N]" at the terminal, once, before a command destroys or takes away
/// something; `yes` is its option --yes. cancelled for any answer but y and yes, and, naming
/// --yes, where the standard input is no terminal, at which no answer can be typed. Blocking.
[[nodiscard]] Status confirm(const std::string& question, bool yes);

}  // namespace tarn::cli
