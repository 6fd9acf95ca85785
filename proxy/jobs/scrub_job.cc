#include "proxy/jobs/scrub_job.h"

#include <algorithm>
#include <utility>

#include "common/cluster/admin/daemon.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/scrub_ages.h"
#include "proxy/jobs/target_work.h"
#include "proxy/watch/ask_targets.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr const char* kScrubJobKind = "scrub";
constexpr const char* kScrubJobPath = "/v1/internal/scrub";

}  // namespace

Task<Result<std::string>> start_scrub(const Services& services, std::string node) {
  const auto state = services.view.state();
  Job job;
  job.kind = kScrubJobKind;
  for (const auto& [id, each] : state->map.nodes)
    if (each.role == cluster::Role::target &&
        (node.empty() ? state->live.contains(id) : id == node))
      job.parts[id] = {};
  if (job.parts.empty())
    co_return fail(Errc::invalid_argument, "a scrub is of targets: '{}' is none", node);
  job.about = node.empty() ? "all files of all targets" : "all files of t[" + node + "]";
  const auto refuse = [&job](const Job& running) -> std::string {
    const bool shared = std::any_of(job.parts.begin(), job.parts.end(), [&](const auto& part) {
      return running.parts.contains(part.first);
    });
    if (running.kind != kScrubJobKind || !shared) return "";
    return fmt::format("scrub[{}] is currently running", running.id);
  };
  co_return co_await services.jobs.start(job, refuse);
}

Task<Status> drive_scrub(const Services& services, Job job) {
  TargetWork work{.path = kScrubJobPath, .continue_on_error = true};
  for (const auto& [target, part] : job.parts) work.targets.push_back(target);
  const Status end = co_await work_on_targets(services, job, std::move(work));
  co_return end;
}

Task<json> scrubs_told(const Services& services) {
  json targets = co_await ask_targets_for(services, kScrubJobPath);
  co_return targets;
}

Task<Result<http::Response>> tell_scrub(const Services& services) {
  json targets = co_await ask_targets_for(services, kScrubJobPath);
  const auto oldest = oldest_verified(targets, services.clock.wall_time().count());
  std::uint64_t bad = 0;
  std::uint64_t open = 0;
  for (const auto& [id, told] : targets.items()) {
    if (!told.contains("drives")) continue;
    for (const auto& [path, drive] : told["drives"].items()) {
      bad += drive.value("bad_ever", std::uint64_t{0});
      for (const json& each : drive.at("found"))
        open += each.value("outcome", "") == "open" ? 1 : 0;
    }
  }
  co_return cluster::json_response({{"oldest_verified_ns", oldest ? json(*oldest) : json()},
                                    {"bad", bad},
                                    {"open", open},
                                    {"targets", std::move(targets)}});
}

}  // namespace tarn::proxy
