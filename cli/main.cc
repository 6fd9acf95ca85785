// tarn: the command line of a cluster.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "cli/commands/admin_commands.h"
#include "cli/commands/commands.h"
#include "cli/commands/redundancy_command.h"

namespace tarn::cli {
namespace {

constexpr const char* kFooter =
    "Objects are named BUCKET/OBJECT, tarn://BUCKET/OBJECT or ais://BUCKET/OBJECT. A name may "
    "stand\n"
    "for many: {000..999} and @1000 count, %06d numbers, or means all that there are.\n"
    "Example:\n"
    "  tarn put -r photos data/ && tarn ls -h data && tarn get 'data/shard-{000..099}.tar' "
    "/scratch/\n"
    "Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 denied, 5 temporary, 6 conflict,\n"
    "7 some failed, 8 checksum, 124 timeout. All of it: docs/cli.md.";

std::string default_endpoint() {
  for (const char* name : {"TARN_ENDPOINT", "AIS_ENDPOINT"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  return "http://127.0.0.1:8080";
}

Exit print_version(bool json) {
  if (json)
    print_json({{"version", TARN_VERSION}});
  else
    fmt::print("tarn {}\n", TARN_VERSION);
  return Exit::ok;
}

void add_everything(CLI::App& app, GlobalOptions& options, Action& chosen) {
  options.endpoint = default_endpoint();
  app.add_option("--endpoint", options.endpoint,
                 "URL of a proxy; else TARN_ENDPOINT, AIS_ENDPOINT, http://127.0.0.1:8080");
  app.add_option("--retry-for", options.retry_for,
                 "go on trying that long while nodes are away, without progress (30s)");
  app.add_flag("--json", options.json, "print tables and results as JSON");
  app.add_flag("-q,--quiet", options.quiet, "no progress and no summary; errors only");
  app.add_flag("--literal", options.literal,
               "names are not templates: {..}, @ and %06d stand for themselves");
  app.set_version_flag("--version", std::string("tarn ") + TARN_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kFooter);

  const CommandLine line{app, options, chosen};
  add_object_commands(line);
  add_list_command(line);
  add_bucket_commands(line);
  add_upstream_commands(line);
  add_inventory_commands(line);
  add_download_command(line);
  add_cluster_commands(line);
  add_redundancy_command(line);
  add_rebuild_commands(line);
  add_scrub_commands(line);
  add_member_commands(line);
  add_job_commands(line);
  add_drive_commands(line);
  add_support_commands(line);
  add_export_command(line);
  add_shards_command(line);
  add_plan_command(line);
  add_bench_command(line);
  add_completion_command(line);
  app.add_subcommand("version", "Print the version")
      ->footer("Example:\n  tarn version --json")
      ->callback(
          [&options, &chosen] { chosen = [&options] { return print_version(options.json); }; });
  add_later_commands(line);
}

/// The word that stands where a command should; empty when there is none, or no command is missing.
std::string unknown_command(const CLI::App& app) {
  const CLI::App* group = &app;
  std::string path;
  while (!group->get_subcommands().empty()) {
    group = group->get_subcommands().front();
    path += group->get_name() + " ";
  }
  const auto words = app.remaining(true);
  return group->get_require_subcommand_min() > 0 && !words.empty() ? path + words.front() : "";
}

/// The fault of the command line, in one line.
std::string misunderstanding(const CLI::App& app, const CLI::ParseError& wrong) {
  if (const std::string unknown = unknown_command(app); !unknown.empty())
    return "there is no command " + unknown;
  const auto words = app.remaining(true);
  if (wrong.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) && !words.empty())
    return "'" + words.front() + "' is not expected here";
  return wrong.what();
}

/// The words of the command line, last first, as CLI11 takes them. By the name of tarshards this
/// program is `tarn shards`; `tarn help COMMAND` is `tarn COMMAND --help`.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const std::string_view name(argc > 0 ? argv[0] : "");
  if (name.substr(name.rfind('/') + 1) == "tarshards") words.insert(words.begin(), "shards");
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.push_back("--help");
  }
  std::reverse(words.begin(), words.end());
  return words;
}

Exit run(int argc, char** argv) {
  CLI::App app("tarn: the command line of a Tarn cluster", "tarn");
  GlobalOptions options;
  Action chosen;
  add_everything(app, options, chosen);
  try {
    app.parse(words_of(argc, argv));
  } catch (const CLI::Success& wanted) {  // --help, --version
    app.exit(wanted);
    return Exit::ok;
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "tarn: {} (tarn --help)\n", printable(misunderstanding(app, wrong)));
    return Exit::usage;
  }
  const Exit code = chosen();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "tarn: write to the standard output: {}\n", std::strerror(errno));
  return code == Exit::ok ? Exit::error : code;
}

}  // namespace

}  // namespace tarn::cli

int main(int argc, char** argv) {
  try {
    return static_cast<int>(tarn::cli::run(argc, argv));
  } catch (const std::exception& problem) {
    fmt::print(stderr, "tarn: {}\n", tarn::printable(problem.what()));
    return static_cast<int>(tarn::cli::Exit::error);
  }
}
