#include "proxy/admin/member_actions.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/api/status.h"
#include "common/base/process.h"
#include "common/cluster/admin/daemon.h"
#include "common/obs/log.h"
#include "proxy/admin/chosen_node.h"
#include "proxy/core/action.h"
#include "proxy/jobs/rebalance_job.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using cluster::MemberChange;
using nlohmann::json;

/// Patience for a count: that of a target with many objects takes a while.
constexpr std::chrono::minutes kCountWait{2};

struct Holdings {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
};

Task<Result<Holdings>> holdings_of(const Services& services, const cluster::Node& target) {
  http::CallLimits limits;
  limits.total = kCountWait;
  CO_TRY(const auto answer,
         co_await call_node(services, target, http::Method::get, "/v1/internal/holdings", limits));
  if (answer.status != 200)
    co_return fail(api::errc_of_answer(answer.status, answer.body), "node {}: {}", target.id,
                   api::error_message_of(answer.body));
  const json told = json::parse(answer.body, nullptr, false);
  co_return Holdings{told.value("objects", std::uint64_t{0}),
                     told.value("bytes", std::uint64_t{0})};
}

/// Returns conflict if one of these targets is down, or holds objects. Those would be lost with it,
/// as their names do not move.
Task<Status> refuse_loss(const Services& services, const cluster::ClusterState& state,
                         std::vector<std::string> ids) {
  constexpr const char* kAnyway =
      "let its names move (without skip_rebalance), or say frc=true, or rm-unsafe, to lose them";
  for (const std::string& id : ids) {
    const cluster::Node* node = state.map.find(id);
    if (node == nullptr || node->role != cluster::Role::target) continue;
    if (!state.live.contains(id))
      co_return fail(Errc::conflict, "target {} is down, so what it holds cannot be counted: {}",
                     id, kAnyway);
    CO_TRY(const Holdings held, co_await holdings_of(services, *node));
    if (held.objects > 0)
      co_return fail(Errc::conflict,
                     "target {} holds {} objects ({} bytes) that would be lost with it: {}", id,
                     held.objects, held.bytes, kAnyway);
  }
  co_return Status();
}

/// Nodes of a shutdown from which no object has to be moved.
std::vector<std::string> take_stoppable(const cluster::Smap& map, MemberChange& change) {
  std::vector<std::string> out;
  const auto may_stop = [&](const std::string& id) {
    const cluster::Node* node = map.find(id);
    return node != nullptr && (node->role == cluster::Role::proxy || change.skip_rebalance);
  };
  for (const std::string& id : change.ids)
    if (may_stop(id)) out.push_back(id);
  std::erase_if(change.ids, may_stop);
  return out;
}

Status check_may_stop(const cluster::Smap& map, const std::vector<std::string>& ids) {
  if (std::find(ids.begin(), ids.end(), map.primary) == ids.end()) return {};
  return fail(Errc::invalid_argument,
              "node {} is the primary and cannot be shut down alone: make another proxy the "
              "primary first (set-primary), or shut the whole cluster down",
              map.primary);
}

/// `ids` are in the map of `state`; one without a lease is down already.
Task<Status> stop_nodes(const Services& services, const cluster::ClusterState& state,
                        std::vector<std::string> ids) {
  Nodes others;
  for (const std::string& id : ids)
    if (id != services.node_id() && state.live.contains(id)) others.push_back(state.map.find(id));
  CO_TRY_OK(co_await put_on(services, std::move(others), "/v1/internal/shutdown", ""));
  co_return Status();
}

/// The id of the rebalance; empty when no names move.
Task<Result<std::string>> publish(const Services& services, MemberChange change) {
  cluster::MapEdit edit = [&change](const cluster::Smap& map, const std::set<std::string>& live) {
    return cluster::with_member_change(map, live, change);
  };
  CO_TRY(const cluster::Smap map,
         co_await cluster::change_map(services.store, services.view, std::move(edit)));
  if (!cluster::moves_names(map, change)) co_return std::string();
  co_return co_await note_rebalance(services, services.view.state());
}

Task<Result<std::string>> act(const Services& services, const cluster::ClusterState& state,
                              MemberChange change, bool force) {
  std::vector<std::string> stopped;
  if (change.action == MemberChange::Action::shutdown) stopped = take_stoppable(state.map, change);
  CO_TRY_OK(check_may_stop(state.map, stopped));
  if (change.action == MemberChange::Action::decommission && change.skip_rebalance && !force)
    CO_TRY_OK(co_await refuse_loss(services, state, change.ids));
  std::string rebalance;
  if (!change.ids.empty()) {
    CO_TRY(rebalance, co_await publish(services, std::move(change)));
  }
  CO_TRY_OK(co_await stop_nodes(services, state, std::move(stopped)));
  co_return rebalance;
}

/// The address for other nodes of AIStore's entry of a node.
Result<std::string> address_in(const std::string& body) {
  const json entry = json::parse(body, nullptr, false);
  for (const char* net : {"intra_control_net", "intra_data_net", "public_net"}) {
    if (!entry.is_object() || !entry.contains(net) || !entry[net].is_object()) continue;
    const json url = entry[net].value("direct_url", json());
    if (url.is_string() && !url.get<std::string>().empty()) return url.get<std::string>();
  }
  return fail(Errc::invalid_argument,
              "join-by-admin: the body names no node: "
              "{{\"intra_control_net\":{{\"direct_url\":\"http://IP:PORT\"}}}}");
}

}  // namespace

Task<Status> change_members(const Services& services, http::Request& request,
                            MemberChange::Action action, json value) {
  CO_TRY(const MemberChange change, cluster::parse_member_change(action, value));
  CO_TRY(const bool force, request.query().flag("frc"));
  CO_TRY(const auto state, co_await services.view.fresh());
  for (const std::string& id : change.ids) {
    if (state->map.find(id) != nullptr) continue;
    const Status refused = co_await refuse_node(request, node_unknown(id));
    co_return refused;
  }
  const bool with_self =
      action == MemberChange::Action::shutdown &&
      std::find(change.ids.begin(), change.ids.end(), services.node_id()) != change.ids.end();
  CO_TRY(const std::string rebalance, co_await act(services, *state, change, force));
  obs::log("proxy").warn("members changed req={} nodes={} rebalance={}",
                         request.exchange.request_id(), fmt::join(change.ids, ","), rebalance);
  http::Response response(200);
  if (!rebalance.empty()) response = http::Response(200, http::kText, rebalance);
  const Status sent = co_await request.exchange.respond(std::move(response));
  if (with_self) request_stop();
  co_return sent;
}

Task<Status> join_by_admin(const Services& services, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(Action::kBytesMax));
  cluster::Node node;
  CO_TRY(node.internal_url, address_in(body));
  node.id = node.internal_url;
  const auto before = services.view.state();
  CO_TRY(const auto answer,
         co_await call_node(services, node, http::Method::post, "/v1/internal/join"));
  if (answer.status == 404 || answer.status == 405)
    co_return fail(Errc::invalid_argument,
                   "{} is not the internal address of a node: node.json of its --dir has it",
                   node.internal_url);
  if (answer.status != 200)
    co_return fail(api::errc_of_answer(answer.status, answer.body), "{}",
                   api::error_message_of(answer.body));
  const json self = json::parse(answer.body, nullptr, false);
  const std::string id = self.is_object() ? self.value("daemon_id", "") : "";
  CO_TRY(const auto state, co_await services.view.fresh());
  const cluster::Node* joined = state->map.find(id);
  if (joined == nullptr)
    co_return fail(Errc::unavailable, "node {} at {} is not in the cluster map; try again", id,
                   node.internal_url);
  const bool moves = joined->role == cluster::Role::target && before->map.find(id) == nullptr;
  std::string rebalance;
  if (moves) rebalance = co_await note_rebalance(services, state);
  const Status sent = co_await request.exchange.respond(
      cluster::json_response({{"daemon_id", id}, {"rebalance_id", rebalance}}));
  co_return sent;
}

}  // namespace tarn::proxy
