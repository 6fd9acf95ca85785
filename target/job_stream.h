#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/gather.h"
#include "target/node.h"

namespace tarn::target {

/// Answers a call that starts a job with its lines of progress, until it ends. `job` has run(),
/// report(Exchange&) and stop(); stop_job() finds it by `id` meanwhile. conflict when a job of that
/// id runs here. `job` must outlive the task.
template <class Job>
Task<Status> stream_job(TargetNode& node, http::Request& request, std::string id, Job& job) {
  const auto known = node.copies.add(id, job.stop());
  if (!known) co_return fail(Errc::conflict, "job {} runs here already", id);
  CO_TRY_OK(co_await request.exchange.begin(http::Response(200, "application/x-ndjson", ""),
                                            std::nullopt));
  std::vector<Task<Status>> both;
  both.push_back(job.run());
  both.push_back(job.report(request.exchange));
  const auto results = co_await gather(std::move(both));
  co_return results.back();
}

}  // namespace tarn::target
