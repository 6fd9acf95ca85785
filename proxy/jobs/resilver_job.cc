#include "proxy/jobs/resilver_job.h"

#include <utility>

#include "proxy/jobs/jobs.h"
#include "proxy/jobs/target_work.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

Job resilver_of(const std::string& node) {
  Job job;
  job.kind = "resilver";
  job.about = "between the drives of t[" + node + "]";
  job.parts[node] = {};
  return job;
}

/// True if `job` walks over the drives of the target: one at a time does.
bool is_at(const Job& job, const std::string& node) {
  return job.kind == "resilver" && job.parts.contains(node);
}

}  // namespace

Task<Status> note_resilver(const Services& services, http::Request& request) {
  const std::string node(request.query().get("node"));
  const std::string id(request.query().get("job"));
  const auto state = services.view.state();
  const cluster::Node* target = state->map.find(node);
  if (target == nullptr || target->role != cluster::Role::target || id.empty())
    co_return fail(Errc::invalid_argument, "node= of a target and job= are required");
  CO_TRY_OK(co_await services.jobs.catch_up());
  for (const Job& each : services.jobs.all())
    if (each.is_running() && is_at(each, node) && each.id != id)
      co_return fail(Errc::conflict, "resilver[{}] of t[{}] is currently running", each.id, node);
  Job job = resilver_of(node);
  job.id = id;
  CO_TRY_OK(co_await services.jobs.add_pending(std::move(job)));
  const Status sent = co_await answer_empty(request);
  co_return sent;
}

Task<Result<std::string>> start_resilver(const Services& services, std::string node) {
  const auto state = services.view.state();
  const cluster::Node* target = state->map.find(node);
  if (target == nullptr || target->role != cluster::Role::target)
    co_return fail(Errc::invalid_argument,
                   "a resilver is of the drives of one target: '{}' is none", node);
  const auto refuse = [node](const Job& running) -> std::string {
    if (!is_at(running, node)) return "";
    return fmt::format("resilver[{}] of t[{}] is currently running", running.id, node);
  };
  co_return co_await services.jobs.start(resilver_of(node), refuse);
}

Task<Status> drive_resilver(const Services& services, Job job) {
  TargetWork work{.path = "/v1/internal/resilver"};
  for (const auto& [node, part] : job.parts) work.targets.push_back(node);
  const Status end = co_await work_on_targets(services, job, std::move(work));
  co_return end;
}

}  // namespace tarn::proxy
