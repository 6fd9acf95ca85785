#include "target/rebalance/request_jobs.h"

#include "common/api/status.h"
#include "common/base/event.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/node/node_call.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr auto kRequestJobsLookEvery = 500ms;
constexpr auto kAgainAfter = 2s;
constexpr auto kTellAgain = 2s;
constexpr std::string_view kPath = "/v1/internal/resilver";
constexpr std::string_view kRebuildPath = "/v1/internal/rebuild";

/// The primary, or any proxy that is up.
const cluster::Node* proxy_of(const cluster::ClusterState& state) {
  const std::string& primary = state.primary.empty() ? state.map.primary : state.primary;
  const cluster::Node* any = state.map.find(primary);
  if (any != nullptr) return any;
  for (const auto& [id, each] : state.map.nodes)
    if (each.role == cluster::Role::proxy && state.live.contains(id)) return &each;
  return nullptr;
}

/// Reports that objects are being repaired here: it is shown to operators as a job, and does not
/// wait for an answer. Repeated while it is so, since the job of another target may be about to
/// end.
Task<void> tell_of_rebuild(TargetNode& node) {
  api::Query query;
  query.set("node", node.id);
  const Status taken = co_await tell_proxy(node, std::string(kRebuildPath) + "?" + query.encode());
  if (!taken && taken.error().code != Errc::conflict)
    obs::log("target").info("no job of the rebuild yet err={}", taken.error().message);
}

bool wants_rebuild_job(const TargetNode& node) {
  return node.rebuild.wants_job() || (node.given_copies.wants_job() && !node.rebuild.is_stopped());
}

}  // namespace

Task<Status> tell_proxy(TargetNode& node, std::string path_and_query) {
  const auto state = node.view.state();
  const cluster::Node* proxy = proxy_of(*state);
  if (proxy == nullptr) co_return fail(Errc::unavailable, "no proxy is known");
  CO_TRY(http::Url address, http::parse_url(proxy->internal_url));
  auto request = signed_call(node, http::Method::post, path_and_query);
  const http::CallLimits limits{.total = 5s};
  CO_TRY(const auto answer,
         co_await node.client.call(std::move(address), std::move(request), limits));
  if (answer.status == 200) co_return Status();
  co_return fail(api::errc_of_answer(answer.status, answer.body), "{}",
                 api::error_message_of(answer.body));
}

Task<void> request_jobs(TargetNode& node) {
  std::string told;
  BootTime rebuild_told{};
  while (true) {
    co_await pause_until(next_tick(kRequestJobsLookEvery));
    if (const BootTime now = node.clock.boot_time();
        wants_rebuild_job(node) && now - rebuild_told > kTellAgain) {
      rebuild_told = now;
      co_await tell_of_rebuild(node);
    }
    // While a walk runs another one would only be refused.
    const std::string job = node.resilver.job(node.clock.boot_time());
    if (job.empty() || job == told || !node.moves.idle() || !node.membership.lease().valid())
      continue;
    api::Query query;
    query.set("node", node.id);
    query.set("job", job);
    const Status taken = co_await tell_proxy(node, std::string(kPath) + "?" + query.encode());
    if (taken) {
      told = job;
      continue;
    }
    obs::log("target").info("resilver not begun yet job={} err={}", job, taken.error().message);
    co_await pause(kAgainAfter);
  }
}

}  // namespace tarn::target
