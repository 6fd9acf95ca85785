#include "proxy/admin/cluster_actions.h"

#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/pause.h"
#include "common/base/process.h"
#include "common/cluster/admin/node_actions.h"
#include "common/cluster/node/primary.h"
#include "common/cluster/state/config_change.h"
#include "common/cluster/state/member_change.h"
#include "common/obs/log.h"
#include "proxy/admin/chosen_node.h"
#include "proxy/admin/cluster_end.h"
#include "proxy/admin/job_actions.h"
#include "proxy/admin/member_actions.h"
#include "proxy/admin/rebalance.h"
#include "proxy/core/action.h"
#include "proxy/core/named_error.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using cluster::ConfigChange;
using cluster::ConfigValues;
using nlohmann::json;

/// Opening a drive takes as long as the work that a crash has left on it.
constexpr std::chrono::minutes kDriveWait{10};
constexpr std::chrono::seconds kConfigWait{5};
constexpr std::chrono::seconds kShutdownWait{3};

/// All other nodes that are up; of `state`.
Nodes others_up(const Services& services, const cluster::ClusterState& state) {
  Nodes out;
  for (const auto& [id, node] : state.map.nodes)
    if (id != services.node_id() && state.live.contains(id)) out.push_back(&node);
  return out;
}

/// The configuration of the cluster was changed: nodes that are up act by it now, or read it from
/// the store when they can be reached again.
Task<void> bring_into_force(const Services& services, cluster::ClusterConfig config) {
  services.node.config.take(config);
  const auto state = services.view.state();
  http::CallLimits limits;
  limits.total = kConfigWait;
  const std::string path = fmt::format("/v1/internal/config?version={}", config.version);
  const Status told = co_await put_on(services, others_up(services, *state), path, "", limits);
  if (!told)
    obs::log("proxy").warn("configuration later on some nodes version={} err={}", config.version,
                           told.error().message);
}

Task<Status> edit_config(const Services& services, http::Request& request,
                         cluster::ConfigEdit edit) {
  CO_TRY(cluster::ClusterConfig config,
         co_await cluster::change_config(services.store, services.view, std::move(edit),
                                         services.clock));
  obs::log("proxy").info("configuration req={} version={}", request.exchange.request_id(),
                         config.version);
  co_await bring_into_force(services, std::move(config));
  co_return co_await answer_empty(request);
}

std::string query_of(const ConfigChange& change) {
  api::Query query;
  for (const auto& [name, value] : change.values) query.set(name, cluster::config_text(value));
  query.set("transient", change.transient ? "true" : "false");
  return query.encode();
}

Task<Status> set_config(const Services& services, http::Request& request, const Action& action) {
  CO_TRY(ConfigChange change, cluster::parse_config_change(request.query(), action));
  if (!change.transient) {
    cluster::ConfigEdit edit = [wanted = change.values](const ConfigValues& before) {
      return cluster::with_config(before, wanted);
    };
    co_return co_await edit_config(services, request, std::move(edit));
  }
  CO_TRY_OK(services.node.config.set(change));
  const auto state = services.view.state();
  CO_TRY_OK(co_await put_on(services, others_up(services, *state),
                            "/v1/daemon/set-config?" + query_of(change), ""));
  co_return co_await answer_empty(request);
}

/// The same action on this proxy and all other nodes that are up.
Task<Status> act_everywhere(const Services& services, http::Request& request, std::string body) {
  const auto state = services.view.state();
  CO_TRY_OK(co_await put_on(services, others_up(services, *state), "/v1/daemon", body));
  co_return co_await cluster::act_on_node(services.node, request, std::move(body));
}

Result<std::vector<std::string>> names_of(const json& value) {
  std::vector<std::string> names;
  bool good = value.is_array();
  for (const json& name : value) {
    good = good && name.is_string();
    if (good) names.push_back(name.get<std::string>());
  }
  if (good) return names;
  return fail(Errc::invalid_argument,
              "reset-config: \"value\" is null (every node forgets what it was told alone) or a "
              "list of settings such as [\"log.level\"]");
}

Task<Status> reset_config(const Services& services, http::Request& request, const Action& action,
                          std::string body) {
  if (action.value.is_null()) {
    const auto state = services.view.state();
    for (const auto& [id, node] : state->map.nodes)
      if (node.role == cluster::Role::target && !state->live.contains(id))
        co_return fail(Errc::unavailable,
                       "node {} is down and would keep what it was told alone: start it first", id);
    co_return co_await act_everywhere(services, request, std::move(body));
  }
  CO_TRY(const std::vector<std::string> names, names_of(action.value));
  cluster::ConfigEdit edit = [names](const ConfigValues& before) {
    return cluster::without_config(before, names);
  };
  co_return co_await edit_config(services, request, std::move(edit));
}

/// Notifies all other nodes. A node that was stopping already does not answer, and is not up soon
/// after.
Task<Status> stop_others(const Services& services) {
  const auto until = std::chrono::steady_clock::now() + kShutdownWait;
  while (true) {
    const auto state = services.view.state();
    const Status told =
        co_await put_on(services, others_up(services, *state), "/v1/internal/shutdown", "");
    if (told || std::chrono::steady_clock::now() > until) co_return told;
    co_await pause(std::chrono::milliseconds(100));
  }
}

/// This proxy goes last, and stays when a node did not get the order: then the same can be asked
/// again.
Task<Status> shut_down_all(const Services& services, http::Request& request) {
  obs::log("proxy").warn("cluster shuts down req={}", request.exchange.request_id());
  CO_TRY_OK(co_await stop_others(services));
  const Status sent = co_await answer_empty(request);
  request_stop();
  co_return sent;
}

std::string verb_of(const http::Request& request, const Action& action) {
  if (!action.action.empty()) return action.action;
  if (request.target.path.ends_with("/set-config")) return "set-config";
  return std::string(request.query().get("action"));
}

}  // namespace

Task<Status> change_cluster(const Services& services, http::Request& request) {
  CO_TRY(std::string body, co_await request.exchange.read_all(Action::kBytesMax));
  CO_TRY(const Action action, parse_action(body));
  const std::string verb = verb_of(request, action);
  if (verb == "start" || verb == "stop") {
    CO_TRY(const bool rebalance, is_about_rebalance(action.value));
    if (rebalance) co_return co_await act_on_rebalance(services, request, action);
    co_return co_await act_on_jobs(services, request, action);
  }
  if (verb == "set-config") co_return co_await set_config(services, request, action);
  if (verb == "reset-config")
    co_return co_await reset_config(services, request, action, std::move(body));
  if (verb == "rotate-logs" || verb == "reset-stats" || verb == "clear-lcache")
    co_return co_await act_everywhere(services, request, std::move(body));
  if (const auto change = cluster::member_action(verb))
    co_return co_await change_members(services, request, *change, action.value);
  if (verb == "shutdown") co_return co_await shut_down_all(services, request);
  if (verb == "decommission") co_return co_await end_cluster(services, request, action);
  if (verb.empty())
    co_return fail(
        Errc::invalid_argument,
        "a PUT to the cluster needs a body such as {{\"action\":\"set-config\",\"value\":"
        "{{\"log\":{{\"level\":\"4\"}}}}}}");
  co_return fail(Errc::unsupported, "action '{}' on the cluster belongs to later work", verb);
}

Task<Status> change_primary(const Services& services, http::Request& request, std::string id) {
  CO_TRY(const bool force, request.query().flag("frc"));
  if (force || !request.query().get("can").empty())
    co_return fail(Errc::unsupported,
                   "frc= and can= join two clusters, which belongs to later work: without them a "
                   "proxy of this cluster becomes its primary");
  CO_TRY(const auto state, co_await services.view.fresh());
  const cluster::Node* node = state->map.find(id);
  if (node == nullptr) {
    const Status refused = co_await refuse_node(request, node_unknown(id));
    co_return refused;
  }
  if (node->role != cluster::Role::proxy)
    co_return fail(Errc::invalid_argument, "node {} is a target: only a proxy can be the primary",
                   id);
  CO_TRY_OK(co_await cluster::set_primary(services.store, services.view, id));
  co_return co_await answer_empty(request);
}

Task<Status> act_on_chosen_node(const Services& services, http::Request& request) {
  CO_TRY(std::string body, co_await request.exchange.read_all(Action::kBytesMax));
  const auto state = services.view.state();
  const auto chosen = chosen_node(services, *state, request);
  if (!chosen) {
    const Status refused = co_await refuse_node(request, chosen.error());
    co_return refused;
  }
  const bool is_about_drives = request.target.path.ends_with("/mountpaths");
  const cluster::Node* node = *chosen;
  if (node == nullptr ? is_about_drives : is_about_drives && node->role != cluster::Role::target)
    co_return fail(Errc::invalid_argument, "a proxy has no drives: name a target");
  if (node == nullptr)
    co_return co_await cluster::act_on_node(services.node, request, std::move(body));
  constexpr std::string_view kReverse = "/v1/reverse";
  std::string path = "/v1" + std::string(request.target.path.substr(kReverse.size()));
  if (!request.query().items().empty()) path += "?" + request.query().encode();
  http::CallLimits limits;
  if (is_about_drives) limits.total = kDriveWait;
  CO_TRY(const auto answer, co_await call_node(services, *node, request.head().method,
                                               std::move(path), limits, std::move(body)));
  const Status sent = co_await request.exchange.respond(relayed(answer));
  co_return sent;
}

}  // namespace tarn::proxy
