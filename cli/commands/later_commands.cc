#include <array>

#include "cli/commands/commands.h"

namespace tarn::cli {
namespace {

constexpr std::array kLater{"mv",       "du",      "cmp",   "tarls",    "layout", "config",
                            "user",     "token",   "meta",  "log",      "doctor", "status",
                            "upstream", "archive", "index", "resilver", "auth",   "etl"};
constexpr std::array kLaterOfBucket{"summary"};

void refuse(CLI::App& group, const std::string& prefix, const char* word, Action& chosen) {
  auto* command = group.add_subcommand(word, "belongs to later work")->group("");
  command->allow_extras()->prefix_command()->fallthrough(false);
  command->callback([&chosen, name = prefix + word] {
    chosen = [name] {
      return complain(name, {Errc::unsupported,
                             "this belongs to later work; `tarn --help` lists what there is"});
    };
  });
}

}  // namespace

void add_later_commands(const CommandLine& line) {
  for (const char* word : kLater) refuse(line.app, "", word, line.chosen);
  for (const char* word : kLaterOfBucket)
    refuse(*line.app.get_subcommand("bucket"), "bucket ", word, line.chosen);
}

}  // namespace tarn::cli
