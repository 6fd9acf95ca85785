#include "proxy/jobs/rebuild_job.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/api/status.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/base/read_json.h"
#include "common/cluster/admin/daemon.h"
#include "common/obs/log.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/rebuild_sum.h"
#include "proxy/jobs/rebuild_waits.h"
#include "proxy/watch/ask_targets.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr const char* kRebuildJobKind = "rebuild";
constexpr const char* kRebuildJobPath = "/v1/internal/rebuild";
/// A target that was stopped stays so: its own report revokes no order of an operator.
constexpr const char* kPathUnlessStopped = "/v1/internal/rebuild?unless=stopped";
/// Job::order of a job that a target wants to be shown.
constexpr const char* kByItself = R"({"by_itself":true})";
constexpr auto kRebuildJobLookEvery = 500ms;
constexpr http::CallLimits kRebuildJobLimits{.total = 2s};

Job rebuild_job(const cluster::ClusterState& state, std::string about) {
  Job job;
  job.kind = kRebuildJobKind;
  job.about = std::move(about);
  for (const auto& [id, node] : state.map.nodes)
    if (node.role == cluster::Role::target) job.parts[id] = {};
  return job;
}

/// Ids of the targets that own names, and so may have slices to make again.
std::set<std::string> owners_in(const cluster::ClusterState& state) {
  std::set<std::string> out;
  for (const cluster::Member& member : state.ownership->map->members)
    if (member.owns()) out.insert(member.id);
  return out;
}

std::string refuse_second(const Job& running) {
  if (running.kind != kRebuildJobKind) return "";
  return fmt::format("rebuild[{}] is currently running", running.id);
}

/// Progress of one kind of work of a target, as the job counts it.
struct RebuildJobWork {
  std::uint64_t look = 0;       // number of the look to wait for
  std::int64_t started_ns = 0;  // of the start that `now` counts
  api::CopyProgress before;     // by starts that are gone
  api::CopyProgress now;

  [[nodiscard]] api::CopyProgress sum() const {
    api::CopyProgress out = before;
    out.objects += now.objects;
    out.bytes += now.bytes;
    return out;
  }
  [[nodiscard]] bool has_looked(const json& report) const {
    return report.at("looks").get<std::uint64_t>() >= look;
  }
  /// Takes a report of RebuildWatch.
  void take(const json& report, std::int64_t job_started_ns) {
    const auto ended = report.at("ended_ns").get<std::int64_t>();
    const auto started = report.at("started_ns").get<std::int64_t>();
    if (started == 0 || (ended != 0 && ended < job_started_ns)) return;
    if (started != started_ns) {
      before = sum();
      now = {};
      started_ns = started;
    }
    report.at("objects").get_to(now.objects);
    report.at("bytes").get_to(now.bytes);
  }
};

/// Progress of one target in the job.
struct RebuildJobPart {
  std::uint64_t incarnation = 0;  // of the target when it was asked
  RebuildJobWork slices;
  RebuildJobWork copies;  // for other targets
  bool done = false;

  [[nodiscard]] api::CopyProgress sum() const {
    api::CopyProgress out = slices.sum();
    const api::CopyProgress more = copies.sum();
    out.objects += more.objects;
    out.bytes += more.bytes;
    return out;
  }
  /// Takes the answer to a call that asked for another look.
  void ask(const json& answer) {
    answer.at("look").get_to(slices.look);
    copies.look = answer.value("copies_look", std::uint64_t{0});
    answer.at("incarnation").get_to(incarnation);
    done = false;
  }
  /// Takes the answer of GET /v1/internal/rebuild. A target of an older version sends no copies.
  /// One that was stopped stays idle, in any order of the two requests.
  void take(const json& report, std::int64_t job_started_ns) {
    const auto state = report.at("state").get<std::string>();
    done = slices.has_looked(report) && (state == "whole" || state == "stopped");
    slices.take(report, job_started_ns);
    const auto its = report.find("copies");
    if (its == report.end()) return;
    const auto copies_state = its->at("state").get<std::string>();
    const bool is_whole = copies_state == "whole" || copies_state == "unknown";
    const bool is_stopped = report.value("stopped", state == "stopped");
    done = done && (is_stopped || (copies.has_looked(*its) && is_whole));
    copies.take(*its, job_started_ns);
  }
};

/// One rebuild as it is watched.
class RebuildJobWatched {
 public:
  RebuildJobWatched(const Services& services, Job job)
      : services_(services), job_(std::move(job)) {}
  Task<Status> follow();

 private:
  Task<bool> look();
  Task<bool> look_at(const cluster::Node& target);
  Task<Result<bool>> hear(const cluster::Node& target, RebuildJobPart& part);
  void note_time_left(const cluster::ClusterState& state);

  const Services& services_;
  const Job job_;
  std::map<std::string, RebuildJobPart> parts_;
  json reports_ = json::object();  // the last of each target that answered the present look
};

/// Takes the report of the target into `part`. False: there is none, or the target has started
/// since it was asked to look, and is asked again.
Task<Result<bool>> RebuildJobWatched::hear(const cluster::Node& target, RebuildJobPart& part) {
  const auto told =
      co_await call_node(services_, target, http::Method::get, kRebuildJobPath, kRebuildJobLimits);
  if (!told || told->status != 200) co_return false;
  CO_TRY(const bool was_asked, read_json(Errc::internal, "its report", [&] {
           json report = json::parse(told->body);
           if (report.at("incarnation").get<std::uint64_t>() != part.incarnation) return false;
           part.take(report, job_.started_ns);
           reports_[target.id] = std::move(report);
           return true;
         }));
  if (was_asked) co_return true;
  if (!co_await services_.jobs.is_ours(job_.id)) co_return false;
  const char* path = job_.order == kByItself ? kPathUnlessStopped : kRebuildJobPath;
  const auto asked =
      co_await call_node(services_, target, http::Method::post, path, kRebuildJobLimits);
  if (!asked || asked->status != 200) co_return false;
  CO_TRY_OK(read_json(Errc::internal, "its answer", [&] { part.ask(json::parse(asked->body)); }));
  co_return false;
}

/// True if the target is done.
Task<bool> RebuildJobWatched::look_at(const cluster::Node& target) {
  RebuildJobPart& part = parts_[target.id];
  const auto is_heard = co_await hear(target, part);
  if (!is_heard)
    obs::log("proxy").warn("rebuild node={} err={}", target.id, is_heard.error().message);
  if (!is_heard || !*is_heard) co_return false;
  const std::int64_t now = services_.clock.wall_time().count();
  services_.jobs.update(job_.id, [&](Job& job) {
    const std::int64_t ended = job.parts[target.id].ended_ns;
    take_progress(job, target.id, part.sum(), !part.done ? 0 : ended != 0 ? ended : now);
  });
  co_return part.done;
}

/// True if all targets that own names are done. Those that are down, and not out, may have work to
/// do: they are waited for.
Task<bool> RebuildJobWatched::look() {
  const auto state = services_.view.state();
  std::vector<Task<bool>> looks;
  bool all = true;
  reports_ = json::object();
  for (const cluster::Member& member : state->ownership->map->members) {
    const auto* node = state->map.find(member.id);
    if (node != nullptr && state->live.contains(member.id))
      looks.push_back(look_at(*node));
    else
      all = all && !member.owns();
  }
  for (const bool done : co_await gather(std::move(looks))) all = all && done;
  note_time_left(*state);
  co_return all;
}

void RebuildJobWatched::note_time_left(const cluster::ClusterState& state) {
  const auto seconds = read_json(Errc::internal, "time left",
                                 [&] { return rebuild_seconds_left(reports_, owners_in(state)); });
  if (!seconds) obs::log("proxy").warn("rebuild err={}", seconds.error().message);
  services_.jobs.update(job_.id,
                        [&](Job& job) { job.seconds_left = seconds ? *seconds : std::nullopt; });
}

Task<Status> RebuildJobWatched::follow() {
  while (true) {
    if (services_.jobs.should_stop(job_.id)) {
      const Status stopped = co_await stop_rebuild(services_);
      if (!stopped) obs::log("proxy").warn("rebuild not stopped err={}", stopped.error().message);
      co_return fail(Errc::cancelled, "the job was told to stop");
    }
    const bool all = co_await look();
    // Targets that were stopped are done as well.
    if (all && services_.jobs.should_stop(job_.id)) continue;
    if (all) co_return Status();
    if (!co_await services_.jobs.is_ours(job_.id))
      co_return fail(Errc::cancelled, "another proxy goes on with it");
    co_await pause(kRebuildJobLookEvery);
  }
}

}  // namespace

Task<Result<std::string>> start_rebuild(const Services& services) {
  const auto state = services.view.state();
  co_return co_await services.jobs.start(
      rebuild_job(*state, "what is missing of objects, as it was asked for"), refuse_second);
}

Task<Status> stop_rebuild(const Services& services) {
  const auto state = services.view.state();
  Nodes targets;
  for (const auto& [id, node] : state->map.nodes)
    if (node.role == cluster::Role::target && state->live.contains(id)) targets.push_back(&node);
  std::vector<Task<Result<http::ClientResponse>>> calls;
  for (const cluster::Node* target : targets)
    calls.push_back(
        call_node(services, *target, http::Method::del, kRebuildJobPath, kRebuildJobLimits));
  const auto answers = co_await gather(std::move(calls));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] && answers[i]->status == 200) continue;
    const std::string why =
        answers[i] ? fmt::format("it answered {}", answers[i]->status) : answers[i].error().message;
    co_return fail(Errc::unavailable, "target t[{}] was not told to stop: {}; ask again",
                   targets[i]->id, why);
  }
  co_return Status();
}

Task<Status> note_rebuild(const Services& services, http::Request& request) {
  const std::string node(request.query().get("node"));
  const auto state = services.view.state();
  const cluster::Node* target = state->map.find(node);
  if (target == nullptr || target->role != cluster::Role::target)
    co_return fail(Errc::invalid_argument, "node= of a target is required");
  Job job = rebuild_job(*state, "what is missing of objects, as t[" + node + "] found");
  job.order = kByItself;
  CO_TRY_OK(co_await services.jobs.start(std::move(job), refuse_second));
  const Status sent = co_await answer_empty(request);
  co_return sent;
}

Task<Status> drive_rebuild(const Services& services, Job job) {
  RebuildJobWatched watched(services, std::move(job));
  co_return co_await watched.follow();
}

Task<Result<http::Response>> tell_rebuild(const Services& services) {
  json targets = co_await ask_targets_for(services, kRebuildJobPath);
  const json absent = co_await absent_targets(services);
  co_return read_json(Errc::internal, "what targets say of the rebuild", [&] {
    const auto seconds = rebuild_seconds_left(targets, owners_in(*services.view.state()));
    json waits = sum_of_waits(targets, absent);
    return cluster::json_response({{"targets", std::move(targets)},
                                   {"waits", std::move(waits)},
                                   {"seconds_left", seconds ? json(*seconds) : json()}});
  });
}

}  // namespace tarn::proxy
