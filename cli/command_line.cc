#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/printing.h"

namespace tarn::cli {

void add_jobs_option(CLI::App* command, unsigned& jobs) {
  command
      ->add_option("-j,--jobs", jobs,
                   fmt::format("transfers at a time, 1 to {} ({})", kJobsMax, jobs))
      ->check(CLI::Range(1U, kJobsMax));
}

void CommandLine::on_session(CLI::App* command, const std::string& name,
                             std::function<Exit(Session&)> run_command) const {
  command->callback([&its_options = options, &its_chosen = chosen, name, run_command] {
    its_chosen = [&its_options, name, run_command] {
      const auto session = Session::open(its_options);
      return session ? run_command(**session) : complain(name, session.error());
    };
  });
}

}  // namespace tarn::cli
