#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/tools/completion.h"

namespace tarn::cli {
namespace {

CommandTree tree_of(const CLI::App& app) {
  CommandTree tree{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options())
    for (const auto& names : {option->get_lnames(), option->get_snames()})
      for (const std::string& name : names)
        tree.options.push_back((name.size() == 1 ? "-" : "--") + name);
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!below->get_group().empty()) tree.commands.push_back(tree_of(*below));
  return tree;
}

}  // namespace

void add_completion_command(const CommandLine& line) {
  auto* command = line.app.add_subcommand("completion", "Print the completion script of a shell");
  command->footer(
      "Examples:\n"
      "  source <(tarn completion bash)              (in ~/.bashrc)\n"
      "  tarn completion zsh > ~/.zsh/_tarn           (a directory of $fpath)");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  command->callback([shell, &app = line.app, &chosen = line.chosen] {
    chosen = [shell, &app] {
      const CommandTree tree = tree_of(app);
      fmt::print("{}", *shell == "bash" ? bash_completion(tree) : zsh_completion(tree));
      return Exit::ok;
    };
  });
}

}  // namespace tarn::cli
