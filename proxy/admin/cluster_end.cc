#include "proxy/admin/cluster_end.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/process.h"
#include "common/cluster/state/bucket_changes.h"
#include "common/cluster/state/cluster_end.h"
#include "common/cluster/state/member_change.h"
#include "common/obs/log.h"
#include "proxy/core/leads.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kClusterEndLookEvery{200};
constexpr std::chrono::milliseconds kClusterEndRestEvery{1'000};
constexpr std::chrono::seconds kBucketsWait{10};

spdlog::logger& log() { return obs::log("proxy"); }

/// True if user data is to go. invalid_argument if `value` is not AIStore's message, or names
/// nodes.
Result<bool> parse_erase(const json& value) {
  constexpr const char* kForm = "decommission: \"value\" is {\"rm_user_data\":false}, or null";
  if (value.is_null()) return false;
  if (!value.is_object()) return fail(Errc::invalid_argument, "{}", kForm);
  const json sids = value.value("sids", json());
  const json sid = value.value("sid", json());
  if ((sids.is_array() && !sids.empty()) || (sid.is_string() && sid != ""))
    return fail(Errc::invalid_argument,
                "decommission is about the whole cluster: decommission-node takes nodes out");
  for (const char* key : {"rm_user_data", "no_shutdown"})
    if (!value.value(key, json(false)).is_boolean())
      return fail(Errc::invalid_argument, "{}", kForm);
  if (value.value("no_shutdown", false))
    return fail(Errc::invalid_argument,
                "decommission: no_shutdown is for nodes; no program goes on without a cluster");
  return value.value("rm_user_data", false);
}

Task<Status> destroy_buckets(const Services& services) {
  const auto state = services.view.state();
  if (state->bmd.buckets.empty()) co_return Status();
  for (const auto& [name, bucket] : state->bmd.buckets) {
    const Status gone =
        co_await cluster::destroy_bucket(services.store, services.view, name, kBucketsWait);
    if (!gone && gone.error().code != Errc::bucket_not_found) co_return gone;
    log().warn("bucket destroyed with the cluster bucket={}", name.display());
    CO_FAIL_POINT("end.bucket");
  }
  co_return Status();
}

/// Has nodes that came back, or joined, end as well.
Task<Status> include_all(const Services& services) {
  const auto state = services.view.state();
  if (cluster::with_all_that_live(state->map, state->live).version == state->map.version)
    co_return Status();
  cluster::MapEdit edit = [](const cluster::Smap& map,
                             const std::set<std::string>& live) -> Result<cluster::Smap> {
    return cluster::with_all_that_live(map, live);
  };
  CO_TRY_OK(co_await cluster::change_map(services.store, services.view, std::move(edit)));
  co_return Status();
}

Nodes other_proxies(const Services& services, const cluster::ClusterState& state) {
  Nodes out;
  for (const auto& [id, node] : state.map.nodes)
    if (node.role == cluster::Role::proxy && id != services.node_id() && state.live.contains(id))
      out.push_back(&node);
  return out;
}

/// One round: true when the cluster is gone. `waits` is the last log line about the nodes that it
/// waits for.
Task<Result<bool>> go_on(const Services& services, std::string& waits) {
  CO_TRY_OK(co_await include_all(services));
  if (cluster::ends_erased(services.view.state()->map))
    CO_TRY_OK(co_await destroy_buckets(services));
  CO_TRY(const auto ended, co_await cluster::read_ended(services.store));
  const auto state = services.view.state();
  std::string waited = fmt::format("{}", fmt::join(cluster::waited_for(state->map, ended), ","));
  if (!waited.empty() && waited != waits) log().info("cluster ends waits_for={}", waited);
  waits = std::move(waited);
  if (!waits.empty()) co_return false;
  CO_FAIL_POINT("end.targets");
  const Nodes others = other_proxies(services, *state);
  if (!others.empty()) {
    CO_TRY_OK(co_await put_on(services, others, "/v1/internal/shutdown", ""));
    co_return false;
  }
  CO_FAIL_POINT("end.before_keys");
  CO_TRY_OK(co_await cluster::remove_cluster(services.store, state->uuid));
  log().warn("cluster decommissioned cluster={} left_out={}", state->uuid,
             fmt::join(cluster::left_out(state->map), ","));
  co_return true;
}

}  // namespace

Task<Status> end_cluster(const Services& services, http::Request& request, Action action) {
  CO_TRY(const bool erase, parse_erase(action.value));
  CO_TRY(const bool force, request.query().flag("frc"));
  CO_TRY(const auto ended, co_await cluster::read_ended(services.store));
  cluster::MapEdit edit = [&](const cluster::Smap& map, const std::set<std::string>& live) {
    return cluster::with_cluster_end(map, live, ended, erase, force);
  };
  CO_TRY(const cluster::Smap map,
         co_await cluster::change_map(services.store, services.view, std::move(edit)));
  const auto left = cluster::left_out(map);
  log().warn("cluster is to end req={} erase={} left_out={}", request.exchange.request_id(), erase,
             fmt::join(left, ","));
  if (left.empty()) co_return co_await answer_empty(request);
  http::Response response(200, http::kText, fmt::format("left out: {}\n", fmt::join(left, ", ")));
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

Task<void> carry_out_cluster_end(const Services& services) {
  EventListener changes(services.view.changed(), co_await asio::this_coro::executor);
  std::string waits;
  std::string problem;
  while (true) {
    const bool is_ending = cluster::is_ending(services.view.state()->map);
    co_await changes.wait_until(next_tick(is_ending ? kClusterEndLookEvery : kClusterEndRestEvery));
    const auto state = services.view.state();
    if (!cluster::is_ending(state->map) || !leads(services, *state)) continue;
    const auto gone = co_await go_on(services, waits);
    if (!gone && gone.error().message != problem) {
      problem = gone.error().message;
      log().warn("cluster does not end yet err={}", problem);
    }
    if (!gone || !*gone) continue;
    request_stop();
    co_return;
  }
}

}  // namespace tarn::proxy
