#include "target/rebalance/move_jobs.h"

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"
#include "common/obs/log.h"
#include "target/node/job_stream.h"
#include "target/rebalance/rebalance.h"
#include "target/rebalance/resilver.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::size_t kMoveJobsOrderBytesMax = 4U << 10U;

/// A walk under way and its lines of progress. All of it runs on the loop of its request.
class MoveJob {
 public:
  using Work = std::function<Task<Status>(api::MoveProgress&, std::stop_token)>;
  MoveJob(std::string id, Work work, const asio::any_io_executor& executor)
      : id_(std::move(id)),
        work_(std::move(work)),
        lines_(executor, [this] { return json(progress_).dump(); }) {}

  [[nodiscard]] JobLines& lines() { return lines_; }

  Task<Status> run() {
    const Status result = co_await work_(progress_, lines_.stop().get_token());
    if (!result) progress_.counts.error = result.error().message;
    progress_.counts.done = true;
    lines_.end();
    obs::log("target").info("{} ended job={} map={} objects={} bytes={} deleted={} clean={} err={}",
                            progress_.kind, id_, progress_.map_version, progress_.counts.objects,
                            progress_.counts.bytes, progress_.counts.deleted, progress_.clean,
                            progress_.counts.error);
    co_return Status();
  }

 private:
  const std::string id_;
  const Work work_;
  api::MoveProgress progress_;
  JobLines lines_;
};

Task<Status> run_job(TargetNode& node, http::Request& request, std::string id, MoveJob::Work work) {
  MoveJob job(id, std::move(work), co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, std::move(id), job);
}

}  // namespace

Task<Status> start_rebalance(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kMoveJobsOrderBytesMax));
  CO_TRY(const std::string job, job_in(body));
  const auto state = node.owned.state();
  if (state->settled < state->map->version)
    co_return fail(Errc::unavailable, "map {} is not in force everywhere yet; try again",
                   state->map->version);
  const auto work = [&node, map = state->map](api::MoveProgress& progress, std::stop_token stop) {
    return rebalance_walk(node, map, progress, std::move(stop));
  };
  co_return co_await run_job(node, request, job, work);
}

Task<Status> start_resilver(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kMoveJobsOrderBytesMax));
  CO_TRY(const std::string job, job_in(body));
  const auto work = [&node](api::MoveProgress& progress, std::stop_token stop) {
    return resilver_walk(node, progress, std::move(stop));
  };
  co_return co_await run_job(node, request, job, work);
}

Task<Status> tell_rebalance(TargetNode& node, http::Request& request) {
  const json out = node.handoff.report();
  co_return co_await request.exchange.respond(http::Response(200, http::kJson, out.dump()));
}

Task<Status> change_move_limits(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kMoveJobsOrderBytesMax));
  MoveLimits& limits = node.moves.limits;
  CO_TRY_OK(read_json(Errc::invalid_argument, "limits of rebalance", [&]() -> Status {
    const json in = json::parse(body);
    const auto bandwidth = in.value("bandwidth", limits.rate.get());
    const auto workers = in.value("workers", limits.workers.load());
    if (workers > MoveLimits::kWorkersMax)
      return fail(Errc::invalid_argument, "workers: at most {}", MoveLimits::kWorkersMax);
    limits.rate.set(bandwidth);
    limits.workers = workers;
    return {};
  }));
  const json now{{"bandwidth", limits.rate.get()}, {"workers", limits.workers.load()}};
  co_return co_await request.exchange.respond(http::Response(200, http::kJson, now.dump()));
}

}  // namespace tarn::target
