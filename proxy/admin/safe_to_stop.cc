#include "proxy/admin/safe_to_stop.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/api/slice_counts.h"
#include "common/api/summary.h"
#include "common/base/gather.h"
#include "common/cluster/admin/daemon.h"
#include "common/http/error_response.h"
#include "common/obs/log.h"
#include "proxy/admin/chosen_node.h"
#include "proxy/admin/redundancy_count.h"
#include "proxy/admin/stop_rules.h"
#include "proxy/core/named_error.h"
#include "proxy/jobs/target_counts.h"
#include "proxy/watch/suspects.h"

namespace tarn::proxy {
namespace {

/// Number of objects of a bucket on these targets. One that does not answer has none to lose.
Task<std::uint64_t> count_single(const Services& services, const StopCase& stop, BucketId bucket) {
  api::Query query;
  query.set("bucket", std::to_string(raw(bucket)));
  query.set("bmd", std::to_string(stop.state.bmd.version));
  const std::string path = "/v1/internal/summary?" + query.encode();
  std::vector<Task<Result<api::BucketSummary>>> calls;
  for (const std::string& id : stop.stops) {
    const cluster::Node* node = stop.state.map.find(id);
    if (node->role == cluster::Role::target && !stop.silent.contains(id))
      calls.push_back(ask_counts<api::BucketSummary>(services, *node, path));
  }
  std::uint64_t objects = 0;
  for (const auto& counted : co_await gather(std::move(calls)))
    if (counted) objects += counted->objects;
  co_return objects;
}

Task<Status> count_buckets(const Services& services,
                           std::shared_ptr<const cluster::ClusterState> state, const StopCase& stop,
                           const StopCounts& counts, StopAnswer& answer) {
  for (const BucketId id : counts.redundant) {
    const auto counted = co_await count_unreadable(services, state, id, stop.stops);
    if (!counted && counted.error().code == Errc::bucket_not_found) continue;  // gone just now
    if (!counted) co_return fail(counted.error());
    if (counted->objects > 0)
      add_unreadable(stop, state->bmd.find(id)->name, counted->objects, counted->first, answer);
  }
  for (const BucketId id : counts.single)
    add_single(state->bmd.find(id)->name, co_await count_single(services, stop, id), answer);
  co_return Status();
}

}  // namespace

Task<Result<http::Response>> answer_safe_to_stop(const Services& services,
                                                 const http::Request& request) {
  const auto state = services.view.state();
  StopCase stop{*state, api::ids_in(request.query().get("node")), {}};
  if (stop.stops.empty())
    co_return fail(Errc::invalid_argument, "what=safe_to_stop needs node=ID or node=ID,ID,...");
  for (const std::string& id : stop.stops)
    if (state->map.find(id) == nullptr)
      co_return http::error_response(request.exchange, node_unknown(id), kNodeNotFound);
  stop.silent = services.suspects.answering()->suspects;
  StopAnswer answer;
  const std::int64_t stale = services.membership.lease().stale_seconds();
  if (stale != 0)
    answer.reasons.push_back(fmt::format(
        "etcd has not answered this proxy for {} s, so it does not know how the others are",
        stale));
  const StopCounts counts = judge_map(stop, answer);
  if (answer.safe()) CO_TRY_OK(co_await count_buckets(services, state, stop, counts, answer));
  obs::log("proxy").info("asked whether nodes may stop nodes={} safe={} reasons={}",
                         fmt::join(answer.nodes, ","), answer.safe(),
                         fmt::join(answer.reasons, "; "));
  co_return cluster::json_response(answer);
}

}  // namespace tarn::proxy
