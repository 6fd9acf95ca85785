// tarn cluster move-metadata, tarn cluster recover: they work on meta stores and drives, with no
// proxy running.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "common/base/clock.h"
#include "common/base/run_blocking.h"
#include "common/cluster/node/secret_check.h"
#include "common/cluster/state/cluster_file.h"
#include "common/cluster/state/metadata_move.h"
#include "common/cluster/store/embedded_store.h"
#include "common/cluster/store/etcd_options.h"
#include "common/http/loops.h"
#include "common/security/cluster_secret.h"

namespace tarn::cli {
namespace {

namespace fs = std::filesystem;

struct MetadataArguments {
  std::string from;
  std::string to;
  std::string secret_file;
  std::vector<std::string> drives;
  cluster::EtcdOptions etcd;
};

using Work = std::function<Task<Result<cluster::Moved>>(cluster::MetaStore& to)>;

bool is_url(const std::string& text) { return text.find("://") != std::string::npos; }

/// The store of a proxy that is stopped.
Result<std::unique_ptr<cluster::EmbeddedStore>> open_embedded(const fs::path& dir) {
  auto opened = cluster::EmbeddedStore::open(dir / "meta", system_clock());
  if (!opened && opened.error().code == Errc::conflict)
    return fail(Errc::conflict, "{}: stop the proxy first (targets go on to serve reads)",
                opened.error().message);
  return opened;
}

Result<std::unique_ptr<cluster::MetaStore>> open_destination(const MetadataArguments& arguments) {
  if (is_url(arguments.to)) {
    auto etcd = arguments.etcd;
    TRY(etcd.endpoints, cluster::parse_endpoints(arguments.to));
    return cluster::open_etcd(etcd);
  }
  TRY(auto opened, open_embedded(arguments.to));
  return std::unique_ptr<cluster::MetaStore>(std::move(opened));
}

Result<std::string> fingerprint_of(const fs::path& secret_file) {
  TRY(const auto secret, security::ClusterSecret::load(secret_file));
  return cluster::fingerprint(secret);
}

/// Runs `work` on a loop of its own with the store that --to names.
Result<cluster::Moved> with_destination(const MetadataArguments& arguments, const Work& work) {
  std::signal(SIGPIPE, SIG_IGN);  // for TLS: a connection that has ended is an error of the write
  http::Loops loops(1);
  TRY(const auto to, open_destination(arguments));
  auto moved = run_blocking(loops.at(0).executor(), work(*to));
  loops.run_on_each([](http::Loop&) { http::Client().close_idle(); });
  return moved;
}

Exit metadata_tell(const std::string& command, const Result<cluster::Moved>& moved, bool json,
                   const std::string& next) {
  if (!moved) return complain(command, moved.error());
  if (json)
    print_json({{"uuid", moved->uuid},
                {"keys", moved->keys},
                {"buckets", moved->buckets},
                {"revision_base", moved->base}});
  else
    fmt::print("cluster {}: {} buckets, {} keys in all\n{}\n", printable(moved->uuid),
               moved->buckets, moved->keys, next);
  return Exit::ok;
}

Result<cluster::Moved> move(const MetadataArguments& arguments) {
  const fs::path dir = arguments.from;
  if (!is_url(arguments.to))
    return fail(Errc::invalid_argument,
                "--to {}: want the URLs of etcd, http://a:2379,http://b:2379", arguments.to);
  if (!fs::exists(dir / "meta"))
    return fail(Errc::not_found, "--from {}: there is no meta store of a proxy in it",
                dir.string());
  TRY(const auto check,
      fingerprint_of(arguments.secret_file.empty() ? dir / "cluster.secret"
                                                   : fs::path(arguments.secret_file)));
  TRY(const auto from, open_embedded(dir));
  return with_destination(arguments, [&](cluster::MetaStore& to) {
    return cluster::move_metadata(*from, to, arguments.to, check);
  });
}

/// Reads the cluster state that a drive, or a copy of its cluster.json, has seen.
Result<cluster::ClusterState> read_seen(const std::string& place) {
  const fs::path file =
      fs::is_directory(place) ? fs::path(place) / ".tarn/cluster.json" : fs::path(place);
  std::ifstream in(file);
  if (!in) return fail(Errc::not_found, "{} cannot be read", file.string());
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto seen = cluster::decode_cluster_file(text);
  if (!seen) return fail(seen.error().code, "{}: {}", file.string(), seen.error().message);
  return seen;
}

Result<cluster::Moved> recover(const MetadataArguments& arguments) {
  std::vector<cluster::ClusterState> seen;
  for (const std::string& place : arguments.drives) {
    TRY(auto one, read_seen(place));
    seen.push_back(std::move(one));
  }
  TRY(auto newest, cluster::newest_of(seen));
  const auto state = cluster::recovered(std::move(newest));
  TRY(const auto check, fingerprint_of(arguments.secret_file));
  // A proxy that finds no secret makes a new one, which no target has.
  if (!is_url(arguments.to) && !fs::exists(fs::path(arguments.to) / "cluster.secret"))
    return fail(Errc::invalid_argument,
                "copy the cluster's secret to {}/cluster.secret first: the proxy there needs it",
                arguments.to);
  return with_destination(arguments, [&](cluster::MetaStore& to) {
    return cluster::restore_metadata(state, to, check);
  });
}

void add_move(const CommandLine& line, CLI::App& group) {
  auto* command = group.add_subcommand(
      "move-metadata", "Take the cluster's state from the one stopped proxy to etcd");
  command->footer(
      "Example:\n  tarn cluster move-metadata --from /var/lib/tarn/proxy --to http://etcd1:2379");
  const auto arguments = std::make_shared<MetadataArguments>();
  command->add_option("--from", arguments->from, "the proxy's --dir")->required();
  command->add_option("--to", arguments->to, "etcd's URLs")->required();
  command->add_option("--secret-file", arguments->secret_file,
                      "the cluster's secret (cluster.secret in --from)");
  arguments->etcd.bind(*command);
  command->callback([arguments, &options = line.options, &chosen = line.chosen] {
    chosen = [arguments, &options] {
      const std::string next = "start proxies and targets with --meta " + arguments->to;
      return metadata_tell("cluster move-metadata", move(*arguments), options.json, next);
    };
  });
}

void add_recover(const CommandLine& line, CLI::App& group) {
  auto* command = group.add_subcommand(
      "recover", "Make the cluster's state anew from its drives, after the meta store was lost");
  command->footer(
      "Example:\n  tarn cluster recover --to http://etcd1:2379 --secret-file cluster.secret "
      "/mnt/d1 /mnt/d2");
  const auto arguments = std::make_shared<MetadataArguments>();
  command->add_option("--to", arguments->to, "etcd's URLs, or the --dir of the one proxy")
      ->required();
  command->add_option("--secret-file", arguments->secret_file, "the cluster's secret")->required();
  command
      ->add_option("DRIVE", arguments->drives,
                   "drives of targets, or copies of their .tarn/cluster.json; the more, the surer")
      ->required();
  arguments->etcd.bind(*command);
  command->callback([arguments, &options = line.options, &chosen = line.chosen] {
    chosen = [arguments, &options] {
      const std::string next = is_url(arguments->to)
                                   ? "start proxies and targets with --meta " + arguments->to
                                   : "start the proxy with --dir " + arguments->to;
      return metadata_tell("cluster recover", recover(*arguments), options.json, next);
    };
  });
}

}  // namespace

void add_metadata_commands(const CommandLine& line, CLI::App& cluster_group) {
  add_move(line, cluster_group);
  add_recover(line, cluster_group);
}

}  // namespace tarn::cli
