// tarn support bundle: one file for a person who looks into a fault elsewhere.

#include <chrono>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "cli/base/node_call.h"
#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/tools/cluster_health.h"
#include "cli/transfer/scratch_file.h"
#include "common/base/archive.h"

namespace tarn::cli {
namespace {

constexpr std::chrono::seconds kHealthLimit{5};
constexpr std::chrono::seconds kAnswerLimit{30};

struct Question {
  const char* file;
  const char* target;
};

/// Answers for the whole cluster.
constexpr Question kOfCluster[] = {
    {"smap.json", "/v1/cluster?what=smap"},
    {"buckets.json", "/v1/cluster?what=bmd"},
    {"config.json", "/v1/cluster?what=cluster_config"},
    {"mountpaths.json", "/v1/cluster?what=mountpaths"},
    {"sysinfo.json", "/v1/cluster?what=sysinfo"},
    {"stats.json", "/v1/cluster?what=node_stats"},
    {"jobs.json", "/v1/cluster?what=status_all"},
    {"rebalance.json", "/v1/cluster?what=rebalance"},
    {"rebuild.json", "/v1/cluster?what=rebuild"},
    {"scrub.json", "/v1/cluster?what=scrub"},
    {"redundancy.json", "/v1/cluster?what=redundancy"},
};
/// Answers of one node, by way of a proxy: paths after /v1/reverse.
constexpr Question kOfNode[] = {
    {"status.json", "/daemon?what=node_status"},
    {"config.json", "/daemon?what=config"},
    {"log.txt", "/daemon?what=log"},
};

/// A .tar.gz that is written member by member: gzip's output for each is appended (RFC 1952,
/// section 2.2, allows several members), so memory holds one file at a time. Blocks.
class Bundle {
 public:
  Bundle(int fd, std::string folder, std::int64_t now_s)
      : fd_(fd), folder_(std::move(folder)), now_s_(now_s) {}

  void add(const std::string& name, std::string_view content) {
    std::string member;
    append_to_tar(member, folder_ + "/" + name, content, now_s_);
    write(member);
    ++files_;
  }
  /// Adds the answer, or notes the reason for its absence.
  void add_answer(const std::string& name, const Result<std::string>& answer) {
    if (answer)
      add(name, *answer);
    else
      note_missing(name, answer.error());
  }
  void note_missing(const std::string& name, const Error& why) {
    missing_.push_back({why.code, name + ": " + printable(why.message)});
  }
  /// Writes the end. Returns the first error of all writes.
  [[nodiscard]] Status finish() {
    std::string lines;
    for (const Error& each : missing_) lines += each.message + "\n";
    if (!lines.empty()) add("missing.txt", lines);
    std::string end;
    end_tar(end);
    write(end);
    return status_;
  }
  [[nodiscard]] std::size_t files() const { return files_; }
  /// Reasons for missing files, one error a file.
  [[nodiscard]] const std::vector<Error>& missing() const { return missing_; }

 private:
  void write(std::string_view bytes) {
    const std::string packed = gzip(bytes);
    if (status_) status_ = write_all(fd_, std::as_bytes(std::span(packed)), "the bundle");
  }

  int fd_;
  std::string folder_;
  std::int64_t now_s_;
  std::size_t files_ = 0;
  std::vector<Error> missing_;
  Status status_;
};

/// Asks once: the bundle names the questions that a cluster in trouble cannot answer.
Task<Result<std::string>> ask(Session& session, std::string url, std::string target) {
  CO_TRY(auto answer, co_await session.ask_node(std::move(url), std::move(target), kAnswerLimit));
  if (answer.status != 200) co_return fail(error_of(answer));
  co_return std::move(answer.body);
}

void add_cluster(Session& session, Bundle& bundle) {
  const std::string url = "http://" + session.endpoint().authority();
  for (const Question& each : kOfCluster)
    bundle.add_answer(std::string("cluster/") + each.file,
                      session.run(ask(session, url, each.target)));
}

/// By way of the endpoint, which may reach nodes that this machine does not.
void add_node(Session& session, const NodeHealth& node, Bundle& bundle) {
  const std::string folder = "nodes/" + node.role + "-" + printable(node.id) + "/";
  for (const Question& each : kOfNode) {
    auto answer = session.run(call_node(session, http::Method::get, node.id, each.target));
    if (!answer && node.state == NodeHealth::State::down) {
      bundle.note_missing(folder, {Errc::unavailable, "it is down: " + node.reason});
      return;
    }
    bundle.add_answer(folder + each.file, answer);
  }
  bundle.add_answer(folder + "metrics.txt", session.run(ask(session, node.url, "/metrics")));
}

std::string about(const Session& session, const ClusterHealth& health, std::time_t now) {
  const std::string complaint = health.complaint();
  return fmt::format(
      "tarn {}\nmade {:%Y-%m-%dT%H:%M:%SZ}\nendpoint {}\ncluster {}\nnodes {}\nhealth {}\n",
      TARN_VERSION, fmt::gmtime(now), session.endpoint().authority(), health.uuid,
      health.nodes.size(), complaint.empty() ? "good" : printable(complaint));
}

/// A new file with rights for its owner alone: logs name clients and objects.
Result<std::unique_ptr<ScratchFile>> make_file(const std::filesystem::path& path) {
  if (std::error_code none; std::filesystem::exists(path, none))
    return fail(Errc::conflict, "{} is there already: name another file with --output",
                path.string());
  const std::string directory = path.has_parent_path() ? path.parent_path().string() : ".";
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno(errno, "open '" + directory + "'");
  TRY(auto file, ScratchFile::create(std::move(fd), path.filename().string()));
  if (::fchmod(file->fd(), 0600) != 0) return fail_errno(errno, "chmod '" + path.string() + "'");
  return file;
}

Exit make_bundle(Session& session, std::string output, const GlobalOptions& options) {
  const std::string name = "support bundle";
  const std::time_t now = std::time(nullptr);
  const std::string folder = fmt::format("tarn-support-{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now));
  if (output.empty()) output = folder + ".tar.gz";
  const auto health = session.run(cluster_health(session, kHealthLimit));
  if (!health) return complain(name, health.error());
  auto file = make_file(output);
  if (!file) return complain(name, file.error());

  Bundle bundle((*file)->fd(), folder, now);
  bundle.add("about.txt", about(session, *health, now));
  add_cluster(session, bundle);
  for (const NodeHealth& node : health->nodes) add_node(session, node, bundle);
  Status done = bundle.finish();
  if (done) done = (*file)->publish();
  if (!done) return complain(name, done.error());

  if (options.json)
    print_json(
        {{"file", output}, {"files", bundle.files()}, {"complete", bundle.missing().empty()}});
  else if (!options.quiet)
    fmt::print("{}\n", output);
  for (const Error& each : bundle.missing()) complain(name, each);
  return bundle.missing().empty() ? Exit::ok : Exit::partial;
}

}  // namespace

void add_support_commands(const CommandLine& line) {
  auto* group = line.app.add_subcommand("support", "Files for a person who helps with a fault");
  group->require_subcommand(1);
  const auto output = std::make_shared<std::string>();
  auto* command = group->add_subcommand(
      "bundle", "Maps, buckets, settings, jobs, health, logs and metrics of all nodes in one file");
  command->footer(
      "No secrets and no data are in it; names of buckets, objects and machines are.\n"
      "Example:\n  tarn support bundle --output fault.tar.gz");
  command->add_option("-o,--output", *output, "the file, which must not be there yet");
  line.on_session(command, "support bundle", [output, &options = line.options](Session& session) {
    return make_bundle(session, *output, options);
  });
}

}  // namespace tarn::cli
