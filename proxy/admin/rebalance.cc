#include "proxy/admin/rebalance.h"

#include <chrono>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/api/status.h"
#include "common/base/encoding.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/cluster/admin/daemon.h"
#include "common/cluster/place/hand_over.h"
#include "common/cluster/state/member_change.h"
#include "common/obs/log.h"
#include "proxy/core/named_error.h"
#include "proxy/jobs/job_query.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/rebalance_job.h"
#include "proxy/watch/ask_targets.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kAnswerWait{2};
constexpr std::chrono::milliseconds kStoreWait{1500};

/// The map version of "g7".
std::optional<std::uint64_t> version_of(const std::string& id) {
  if (!id.starts_with("g")) return std::nullopt;
  return parse_u64(std::string_view(id).substr(1));
}

using StatePtr = std::shared_ptr<const cluster::ClusterState>;

/// Reads the store's state, as edits of the map see it: the view may be older than a store that was
/// made anew. `state` stays where the store does not answer in time.
Task<void> read_state(const Services& services, StatePtr& state) {
  const auto asked = co_await first_of(services.view.fresh(), pause(kStoreWait));
  if (const auto* fresh = std::get_if<0>(&asked); fresh != nullptr && *fresh) state = **fresh;
}

Task<void> ask_for_reports(const Services& services, const Nodes& targets, json& reports) {
  http::CallLimits limits;
  limits.total = kAnswerWait;
  std::vector<Task<Result<http::ClientResponse>>> calls;
  for (const cluster::Node* target : targets)
    calls.push_back(
        call_node(services, *target, http::Method::get, "/v1/internal/rebalance", limits));
  const auto answers = co_await gather(std::move(calls));
  for (std::size_t i = 0; i < targets.size(); ++i) reports[targets[i]->id] = report_in(answers[i]);
}

}  // namespace

Result<bool> is_about_rebalance(const json& value) {
  TRY(const JobQuery query, job_query_from(value));
  return query.kind == "rebalance" || (query.kind.empty() && version_of(query.id));
}

Task<Status> act_on_rebalance(const Services& services, http::Request& request, Action action) {
  CO_TRY(const JobQuery query, job_query_from(action.value));
  const bool start = action.action == "start";
  if (start && !query.buckets.empty())
    co_return fail(
        Errc::unsupported,
        "a rebalance of one bucket belongs to later work: without a bucket it is of all");
  cluster::MapEdit edit = [start](const cluster::Smap& map, const auto&) -> Result<cluster::Smap> {
    return start ? cluster::with_rebalance_started(map) : cluster::with_rebalance_stopped(map);
  };
  const auto known = services.view.state();
  const auto asked = version_of(query.id);
  if (!start && !query.id.empty() && (!asked || *asked > known->map.version)) {
    const Error unknown{Errc::not_found, name_of(query) + " does not exist"};
    const Status sent = co_await refuse_as(request, unknown, kJobNotFound);
    co_return sent;
  }
  CO_TRY(const cluster::Smap map,
         co_await cluster::change_map(services.store, services.view, std::move(edit)));
  obs::log("proxy").warn("rebalance {} req={} map={}", start ? "started" : "stopped",
                         request.exchange.request_id(), map.version);
  http::Response response(200);
  if (start) {
    std::string id = co_await note_rebalance(services, services.view.state());
    response = http::Response(200, http::kText, std::move(id));
  }
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

Task<Result<http::Response>> tell_rebalance(const Services& services) {
  const StatePtr known = services.view.state();
  StatePtr state = known;
  Nodes targets;
  for (const auto& [id, node] : known->map.nodes)
    if (node.role == cluster::Role::target) targets.push_back(&node);
  json reports = json::object();
  std::vector<Task<void>> both;
  both.push_back(read_state(services, state));
  both.push_back(ask_for_reports(services, targets, reports));
  co_await gather(std::move(both));
  const auto& map = state->map;
  json without_lease = json::array();
  for (const auto& [id, node] : map.nodes)
    if (!state->live.contains(id)) without_lease.push_back(id);
  co_return cluster::json_response({{"map", map.version},
                                    {"settled", state->ownership->settled},
                                    {"held", map.rebalance.held},
                                    {"past", map.past.size()},
                                    {"without_lease", std::move(without_lease)},
                                    {"targets", std::move(reports)}});
}

}  // namespace tarn::proxy
