#pragma once

#include <string>
#include <vector>

namespace tarn::cli {

/// A command and the commands below it, as a completion needs them.
struct CommandTree {
  std::string name;
  std::string help;                   ///< one sentence
  std::vector<std::string> options;   ///< "--json", "-q"
  std::vector<CommandTree> commands;  ///< all that help texts list
};

/// A script that completes `tarn` and `tarshards`: commands, options, and, where they fit, files,
/// buckets and objects (for these it asks the cluster with `tarn ls`). For bash to source, for zsh
/// to source or to find in its fpath as _tarn. Pure.
[[nodiscard]] std::string bash_completion(const CommandTree& tarn);
[[nodiscard]] std::string zsh_completion(const CommandTree& tarn);

}  // namespace tarn::cli
