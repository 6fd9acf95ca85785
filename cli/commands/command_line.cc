#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/transfer/batch.h"

namespace tarn::cli {

void add_jobs_option(CLI::App* command, unsigned& jobs) {
  command
      ->add_option("-j,--jobs", jobs,
                   fmt::format("transfers at a time, 1 to {} ({})", kJobsMax, jobs))
      ->check(CLI::Range(1U, kJobsMax));
}

void CommandLine::on_session(CLI::App* command, const std::string& name,
                             const std::function<Exit(Session&)>& run_command) const {
  command->callback([&its_options = options, &its_chosen = chosen, name, run_command] {
    its_chosen = [&its_options, name, run_command] {
      const auto session = Session::open(its_options);
      if (!session) return complain(name, session.error());
      const Exit code = run_command(**session);
      const bool is_missing = code == Exit::not_found || code == Exit::partial;
      if (is_missing && !(*session)->advice().empty())
        complain(name, {Errc::not_found, (*session)->advice()});
      return code;
    };
  });
}

}  // namespace tarn::cli
