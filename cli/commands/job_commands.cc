#include <chrono>
#include <optional>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "cli/base/place.h"
#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/tools/job_progress.h"
#include "cli/tools/job_wait.h"
#include "common/base/settings.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

/// "2026-11-22 06:14:05"; "-" for a job that runs.
std::string job_time_text(std::int64_t wall_ns) {
  if (wall_ns == 0) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}",
                     fmt::gmtime(static_cast<std::time_t>(wall_ns / 1'000'000'000)));
}

Exit job_list(Session& session, const std::string& kind, bool all, const GlobalOptions& options) {
  const auto jobs = session.run(list_jobs(session, kind, all));
  if (!jobs) return complain("job ls", jobs.error());
  if (options.json) {
    auto out = ordered_json::array();
    for (const JobStatus& job : *jobs)
      out.push_back({{"id", job.id},
                     {"kind", job.kind},
                     {"state", job.state()},
                     {"ended_ns", job.ended_ns},
                     {"error", job.error}});
    print_json(out);
    return Exit::ok;
  }
  if (jobs->empty() && options.quiet) return Exit::ok;
  Table table({"JOB", "KIND", "STATE", "ENDED (UTC)", ""});
  for (const JobStatus& job : *jobs)
    table.add({job.id, job.kind, job.state(), job_time_text(job.ended_ns), job.error});
  table.print();
  return Exit::ok;
}

ordered_json job_json_of(const JobDetails& job) {
  auto targets = ordered_json::array();
  for (const JobFigures& part : job.targets)
    targets.push_back({{"target", part.target},
                       {"objects", part.objects},
                       {"bytes", part.bytes},
                       {"ended", part.ended}});
  const auto& left = job.seconds_left;
  return {
      {"id", job.status.id},          {"kind", job.status.kind},
      {"state", job.status.state()},  {"about", job.about},
      {"started", job.started},       {"ended_ns", job.status.ended_ns},
      {"error", job.complaint()},     {"objects", job.sum.objects},
      {"bytes", job.sum.bytes},       {"seconds_left", left ? ordered_json(*left) : ordered_json()},
      {"targets", std::move(targets)}};
}

Exit job_show(Session& session, const std::string& id, bool json) {
  const auto job = session.run(job_details(session, id));
  if (!job) return complain("job show", job.error());
  if (json) {
    print_json(job_json_of(*job));
    return Exit::ok;
  }
  fmt::print("job {}: {}, {}\n", printable(id), printable(job->status.kind), job->status.state());
  if (!job->about.empty()) fmt::print("{}\n", printable(job->about));
  if (!job->complaint().empty()) fmt::print("{}\n", printable(job->complaint()));
  fmt::print("started {}, ended {}\n", printable(job->started),
             job_time_text(job->status.ended_ns));
  if (job->seconds_left) fmt::print("time left {}\n", readable_seconds(*job->seconds_left));
  fmt::print("\n");
  Table table({"TARGET", "STATE", "OBJECTS", "BYTES"});
  for (const JobFigures& part : job->targets)
    table.add({part.target, part.ended ? "ended" : "running", std::to_string(part.objects),
               readable_size(part.bytes)});
  table.add({"all", "", std::to_string(job->sum.objects), readable_size(job->sum.bytes)});
  table.print();
  return Exit::ok;
}

Exit job_wait(Session& session, const std::string& id, const std::string& timeout, bool json) {
  std::optional<std::chrono::steady_clock::time_point> until;
  if (!timeout.empty()) {
    const auto limit = parse_duration(timeout);
    if (!limit)
      return complain("job wait", {Errc::invalid_argument,
                                   fmt::format("--timeout: {}", limit.error().message)});
    until = std::chrono::steady_clock::now() + *limit;
  }
  const auto job = session.run(wait_for_job(session, id, nullptr, until));
  if (!job) return complain("job wait", job.error());
  if (!job->complaint().empty())
    return complain("job wait", {Errc::io, fmt::format("job {}: {}", id, job->complaint())});
  if (json) print_json(job_json_of(*job));
  return Exit::ok;
}

Exit job_stop(Session& session, const std::string& id) {
  const ordered_json body{{"action", "stop"}, {"value", {{"ID", id}}}};
  const auto answer = session.run(session.call(http::Method::put, "/v1/cluster", body.dump()));
  if (!answer) return complain("job stop", answer.error());
  return Exit::ok;
}

struct Order {
  std::string kind;
  std::vector<std::string> buckets;
  std::string target;
  bool force = false;
  bool wait = false;
};

Exit job_start(Session& session, const Order& order, const GlobalOptions& options) {
  auto buckets = ordered_json::array();
  for (const std::string& name : order.buckets) {
    const auto bucket = parse_bucket(name);
    if (!bucket) return complain("job start", bucket.error());
    buckets.push_back({{"name", bucket->bucket}, {"provider", bucket->provider}});
  }
  const ordered_json body{{"action", "start"},
                          {"value",
                           {{"Kind", order.kind},
                            {"DaemonID", order.target},
                            {"Buckets", buckets},
                            {"Force", order.force}}}};
  const auto answer = session.run(session.call(http::Method::put, "/v1/cluster", body.dump()));
  if (!answer) return complain("job start", answer.error());
  const JobWords words{.line = order.kind, .done = "done:", .no_wait = !order.wait};
  return tell_of_job(session, "job start", answer->body, words, options);
}

void add_start(const CommandLine& line, CLI::App& group) {
  const auto order = std::make_shared<Order>();
  auto* command = group.add_subcommand("start", "Begin a job, print its id");
  command->footer(
      "Examples:\n  tarn job start cleanup --wait\n  tarn job start load-lom-cache imagenet\n"
      "  tarn job start lru s3://imagenet --wait");
  command->add_option("KIND", order->kind, "cleanup, load-lom-cache, lru, mirror, resilver")
      ->required();
  command->add_option("BUCKET", order->buckets, "buckets that it is about (all)");
  command->add_option("--target", order->target, "id of the target that does it (all)");
  command->add_flag("--force", order->force, "lru: also of buckets with lru.enabled=false");
  command->add_flag("--wait", order->wait, "return when it has ended; 1 when that was not well");
  line.on_session(command, "job start", [order, &options = line.options](Session& session) {
    return job_start(session, *order, options);
  });
}

}  // namespace

void add_job_commands(const CommandLine& line) {
  auto* group =
      line.app.add_subcommand("job", "Begin jobs, look at them, wait for them, stop them");
  group->require_subcommand(1);
  add_start(line, *group);
  const auto id = std::make_shared<std::string>();

  const auto kind = std::make_shared<std::string>();
  const auto all = std::make_shared<bool>(false);
  auto* ls = group->add_subcommand("ls", "List the jobs that run");
  ls->footer("Example:\n  tarn job ls --all --kind copy-bck");
  ls->add_option("--kind", *kind, "only these: copy-bck, rebalance, summary-bck, ...");
  ls->add_flag("-a,--all", *all, "those that have ended, too");
  line.on_session(ls, "job ls", [kind, all, &options = line.options](Session& session) {
    return job_list(session, *kind, *all, options);
  });

  auto* details = group->add_subcommand("show", "Show what each target has done of a job");
  details->footer("Example:\n  tarn job show Zk3vQ9xPwA");
  details->add_option("JOB", *id, "its id")->required();
  line.on_session(details, "job show", [id, &options = line.options](Session& session) {
    return job_show(session, *id, options.json);
  });

  const auto timeout = std::make_shared<std::string>();
  auto* until_end = group->add_subcommand(
      "wait", "Wait until a job has ended; 1 when that was not well, 124 when it takes too long");
  until_end->footer("Example:\n  tarn job wait Zk3vQ9xPwA --timeout 1h");
  until_end->add_option("JOB", *id, "its id")->required();
  until_end->add_option("--timeout", *timeout, "how long at most (for ever)");
  line.on_session(until_end, "job wait", [id, timeout, &options = line.options](Session& session) {
    return job_wait(session, *id, *timeout, options.json);
  });

  auto* end = group->add_subcommand("stop", "Stop a job, and wait until it has ended");
  end->footer("Example:\n  tarn job stop Zk3vQ9xPwA");
  end->add_option("JOB", *id, "its id")->required();
  line.on_session(end, "job stop", [id](Session& session) { return job_stop(session, *id); });
}

}  // namespace tarn::cli
