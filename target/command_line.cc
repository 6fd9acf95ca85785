#include "target/command_line.h"

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/cluster/store/etcd_options.h"
#include "common/obs/log.h"

namespace tarn::target {
namespace {

constexpr int kUsage = 2;

/// Words that mean something only together with other ones.
struct Words {
  std::string dir;
  std::string secret;
  std::string meta;
  std::vector<std::string> assignments;
  std::vector<std::string> advertise;
  bool help_settings = false;
};

void declare(CLI::App& app, Options& options, Words& words) {
  app.set_version_flag("--version", std::string("tarn-target ") + TARN_VERSION);
  app.add_option("--dir", words.dir, "directory of this node's own files (node.json)");
  app.add_option("--drive", options.drives, "a drive: one directory on a file system of its own");
  app.add_option("--replace-drive", options.replace_drives,
                 "give up the old drive at this path for lost and use the empty one there");
  app.add_option("--listen", options.listen, "IP:port for clients");
  app.add_option("--internal", options.internal, "IP:port for other nodes");
  app.add_option("--advertise", words.advertise,
                 "URL by which clients reach --listen; NETWORK=URL for those of one network, as in "
                 "10.244.0.0/16=http://name:8080")
      ->allow_extra_args(false);
  app.add_option("--zone", options.zone,
                 "failure domain of this target, as the zone of a cloud or a rack; objects are "
                 "spread over zones when all targets have one");
  app.add_option("--join", options.join, "internal URL of the proxy, http://IP:port");
  app.add_option("--meta", words.meta,
                 "instead of --join: etcd's URLs, http://a:2379,http://b:2379");
  options.etcd.bind(app);
  app.add_option("--secret-file", words.secret,
                 "the cluster's secret (cluster.secret of the proxy)");
  app.add_option("--threads", options.threads, "event loops; 0: one a core");
  app.add_option("--set", words.assignments, "key=value, see --help-settings")
      ->allow_extra_args(false);
  app.add_flag("--help-settings", words.help_settings, "print all settings");
}

/// Checks what a target cannot do without, and makes paths what the rest of it expects.
Status complete(Options& options, const Words& words) {
  if (words.dir.empty() || options.drives.empty() || options.join.empty() == words.meta.empty() ||
      words.secret.empty())
    return fail(Errc::invalid_argument,
                "--dir, --drive, --secret-file and either --join or --meta are required (see "
                "--help)");
  if (!words.meta.empty()) {
    auto endpoints = cluster::parse_endpoints(words.meta);
    if (!endpoints) return fail(Errc::invalid_argument, "--meta: {}", endpoints.error().message);
    options.etcd.endpoints = std::move(*endpoints);
  }
  TRY(options.advertise, cluster::parse_advertised(words.advertise));
  if (!options.zone.empty()) {
    const Status named = cluster::check_zone(options.zone);
    if (!named) return fail(named.error().code, "--zone: {}", named.error().message);
  }
  options.dir = std::filesystem::absolute(words.dir);
  options.secret_file = std::filesystem::absolute(words.secret);
  for (std::string& drive : options.drives)
    drive = std::filesystem::absolute(drive).lexically_normal().string();
  for (auto* paths : {&options.drives, &options.replace_drives})
    for (std::string& path : *paths)
      while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return obs::set_log_level(options.service.log_level);
}

}  // namespace

tl::expected<Options, int> parse_command_line(int argc, char** argv) {
  Options options;
  Words words;
  CLI::App app{"tarn-target: a storage node of Tarn"};
  declare(app, options, words);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return tl::unexpected(app.exit(error) == 0 ? 0 : kUsage);
  }
  Settings settings;
  options.bind(settings);
  if (words.help_settings) {
    std::cout << settings.table();
    return tl::unexpected(0);
  }
  Status good = settings.apply(words.assignments);
  if (good) good = complete(options, words);
  if (good) return options;
  std::cerr << "tarn-target: " << good.error().message << "\n";
  return tl::unexpected(kUsage);
}

}  // namespace tarn::target
