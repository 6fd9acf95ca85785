#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "cli/base/exit_code.h"
#include "cli/base/session.h"

namespace tarn::cli {

/// Work that the command line asked for; runs after all of it has been read.
using Action = std::function<Exit()>;

/// Place where a group of commands puts itself: options in `options` are complete when an Action
/// runs.
struct CommandLine {
  CLI::App& app;
  const GlobalOptions& options;
  Action& chosen;

  /// A command that needs the cluster. Errors of `run` are printed under the name `command`.
  void on_session(CLI::App* command, const std::string& name,
                  const std::function<Exit(Session&)>& run) const;
};

/// `-j N`: number of transfers at a time, within the bounds of batch.h.
void add_jobs_option(CLI::App* command, unsigned& jobs);

void add_object_commands(const CommandLine& line);     ///< put, get, cat, rm, stat, cp
void add_put_command(const CommandLine& line);         ///< put
void add_get_commands(const CommandLine& line);        ///< get, cat
void add_list_command(const CommandLine& line);        ///< ls
void add_bucket_commands(const CommandLine& line);     ///< bucket create, set, rm, evict, ...
void add_upstream_commands(const CommandLine& line);   ///< prefetch, evict
void add_inventory_commands(const CommandLine& line);  ///< inventory make, show, rm
void add_download_command(const CommandLine& line);    ///< download, download ls, status, ...
void add_cluster_commands(const CommandLine& line);    ///< cluster status, wait
void add_job_commands(const CommandLine& line);        ///< job ls, show, wait, stop
void add_rebuild_commands(const CommandLine& line);    ///< rebuild plan, start, status, stop
void add_scrub_commands(const CommandLine& line);      ///< scrub start, status, stop
/// cluster move-metadata, recover
void add_metadata_commands(const CommandLine& line, CLI::App& cluster_group);
void add_support_commands(const CommandLine& line);    ///< support bundle
void add_export_command(const CommandLine& line);      ///< export
void add_shards_command(const CommandLine& line);      ///< shards
void add_plan_command(const CommandLine& line);        ///< plan
void add_bench_command(const CommandLine& line);       ///< bench
void add_completion_command(const CommandLine& line);  ///< completion, last: it walks all of them
void add_later_commands(const CommandLine& line);      ///< words that are refused, with a line

}  // namespace tarn::cli
