#pragma once

#include <string_view>

#include "common/base/error.h"

namespace tarn::cli {

/// Exit codes of `tarn`; scripts rely on these numbers.
enum class Exit : int {
  ok = 0,
  error = 1,
  usage = 2,
  not_found = 3,
  denied = 4,
  temporary = 5,  ///< trying again later may help
  conflict = 6,   ///< a precondition failed, or it exists already
  partial = 7,    ///< some items failed: a line each on stderr
  integrity = 8,  ///< bytes are not those that they should be
  timeout = 124,
};

[[nodiscard]] Exit exit_for(Errc code) noexcept;

/// Writes "tarn COMMAND: MESSAGE" as one line to stderr. Returns the exit code of the error.
Exit complain(std::string_view command, const Error& error);

}  // namespace tarn::cli
