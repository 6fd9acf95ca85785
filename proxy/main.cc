// tarn-proxy: the gateway of a Tarn cluster. Command line, signals, exit codes.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "common/base/process.h"
#include "common/base/settings.h"
#include "common/obs/log.h"
#include "proxy/core/options.h"
#include "proxy/proxy.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int complain(std::string_view message, int code) {
  std::fprintf(stderr, "tarn-proxy: %.*s\n", static_cast<int>(message.size()), message.data());
  return code;
}

/// Half-started: no work to finish, and threads that are not joined.
[[noreturn]] void give_up(const std::system_error& problem) {
  complain(fmt::format("cannot start a thread: {}; raise the limit (ulimit -u, TasksMax, pids.max)",
                       problem.what()),
           kFailed);
  std::_Exit(kFailed);
}

tarn::Status start(tarn::proxy::Proxy& proxy) {
  try {
    return proxy.start();
  } catch (const std::system_error& problem) {
    give_up(problem);
  }
}

/// Stops the proxy. When tasks of it do not end it is left as it is, and the process ends here: all
/// that the cluster and the next start need is done. A crash would have the supervisor start a node
/// again that was asked to end.
void stop(tarn::proxy::Proxy& proxy, int code) {
  if (proxy.stop()) return;
  tarn::obs::log("proxy").error("stopped with tasks that did not end: see \"tasks still run\"");
  std::_Exit(code);
}

int run(tarn::proxy::Options options) {
  tarn::proxy::Proxy proxy(std::move(options), tarn::system_clock());
  const tarn::Status started = start(proxy);
  if (!started) {
    complain(started.error().message, kFailed);
    stop(proxy, kFailed);
    return kFailed;
  }
  const char* signal = tarn::wait_for_stop();
  tarn::obs::log("proxy").info("stopping signal={}", signal);
  stop(proxy, 0);
  tarn::obs::log("proxy").info("stopped");
  return 0;
}

int run_program(int argc, char** argv) {
  tarn::proxy::Options options;
  tarn::Settings settings;
  options.bind(settings);

  CLI::App app{"tarn-proxy: sends each request to the storage target that owns the object"};
  std::vector<std::string> assignments;
  std::string dir;
  std::string meta = "embedded";
  bool help_settings = false;
  app.set_version_flag("--version", std::string("tarn-proxy ") + TARN_VERSION);
  auto* dir_option =
      app.add_option("--dir", dir, "directory of this proxy's state; made if missing");
  app.add_option("--listen", options.listen, "address that redirects clients to targets")
      ->capture_default_str();
  app.add_option("--relay", options.relay, "address that relays for clients without redirects")
      ->capture_default_str();
  app.add_option("--internal", options.internal, "address for the nodes of the cluster")
      ->capture_default_str();
  app.add_option("--advertise", options.advertise,
                 "URL by which clients reach --listen (default: what is bound)");
  app.add_option("--meta", meta,
                 "where the cluster's state lives: embedded (in --dir; one proxy, one machine), or "
                 "etcd's URLs, http://a:2379,http://b:2379")
      ->capture_default_str();
  options.etcd.bind(app);
  app.add_option("--secret-file", options.secret_file,
                 "the cluster's secret (default: cluster.secret in --dir, made when missing); with "
                 "etcd every node needs a copy of the same file");
  app.add_option("--threads", options.threads, "event loops (default: one a core)")
      ->check(CLI::Range(0, 1024));
  app.add_option("--set", assignments, "KEY=VALUE, may be repeated; see --help-settings")
      ->allow_extra_args(false);
  app.add_flag("--help-settings", help_settings, "print the keys of --set and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);
    return complain(problem.what(), kUsage);
  }
  if (help_settings) {
    std::fputs(settings.table().c_str(), stdout);
    return 0;
  }
  if (dir_option->count() == 0) return complain("--dir is required", kUsage);
  options.dir = std::filesystem::absolute(dir);
  if (const auto chosen = options.choose_meta(meta); !chosen)
    return complain(chosen.error().message, kUsage);
  if (!options.secret_file.empty())
    options.secret_file = std::filesystem::absolute(options.secret_file);
  if (const auto applied = settings.apply(assignments); !applied)
    return complain(applied.error().message, kUsage);
  if (const auto leveled = tarn::obs::set_log_level(options.service.log_level); !leveled)
    return complain(leveled.error().message, kUsage);

  tarn::prepare_process();
  return run(std::move(options));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const std::exception& problem) {
    return complain(problem.what(), kFailed);
  } catch (...) {
    return kFailed;
  }
}
