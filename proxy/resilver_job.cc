#include "proxy/resilver_job.h"

#include <utility>

#include "proxy/target_work.h"

namespace tarn::proxy {

Task<Result<std::string>> start_resilver(const Services& services, std::string node) {
  const auto state = services.view.state();
  const cluster::Node* target = state->map.find(node);
  if (target == nullptr || target->role != cluster::Role::target)
    co_return fail(Errc::invalid_argument,
                   "a resilver is of the drives of one target: '{}' is none", node);
  Job job;
  job.kind = "resilver";
  job.about = "between the drives of t[" + node + "]";
  job.parts[node] = {};
  // One walk over a target's drives at a time.
  const auto refuse = [node](const Job& running) -> std::string {
    if (running.kind != "resilver" || !running.parts.contains(node)) return "";
    return fmt::format("resilver[{}] of t[{}] is currently running", running.id, node);
  };
  co_return co_await services.jobs.start(std::move(job), refuse);
}

Task<Status> drive_resilver(const Services& services, Job job) {
  TargetWork work{.path = "/v1/internal/resilver"};
  for (const auto& [node, part] : job.parts) work.targets.push_back(node);
  const Status end = co_await work_on_targets(services, job, std::move(work));
  co_return end;
}

}  // namespace tarn::proxy
