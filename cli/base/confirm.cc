#include "cli/base/confirm.h"

#include <iostream>
#include <unistd.h>

#include <fmt/core.h>

namespace tarn::cli {

Status confirm(const std::string& question, bool yes) {
  if (yes) return {};
  if (::isatty(STDIN_FILENO) == 0)
    return fail(Errc::cancelled,
                "not confirmed: give --yes to {} where the standard input is no terminal",
                question);
  fmt::print(stderr, "{}? [y/N] ", question);
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "yes") return {};
  return fail(Errc::cancelled, "not confirmed");
}

}  // namespace tarn::cli
