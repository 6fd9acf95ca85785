#include "common/cluster/admin/node_actions.h"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/api/action.h"
#include "common/base/encoding.h"
#include "common/base/process.h"
#include "common/cluster/node/node_config.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

using http::Request;
using http::Response;

Task<Status> done(Request& request) {
  const Status sent = co_await request.exchange.respond(Response(200));
  co_return sent;
}

/// Brings the view up to `version` if it is older.
Task<Status> take_config(const NodeContext& context, Request& request) {
  const auto version = parse_u64(request.query().get("version"));
  if (!version) co_return fail(Errc::invalid_argument, "version= is no number");
  auto state = context.view.state();
  if (state->config.version < *version) {
    CO_TRY(state, co_await context.view.fresh());
  }
  context.config.take(state->config);
  co_return co_await done(request);
}

Task<Status> shut_down(const NodeContext& context, Request& request) {
  obs::log("node").warn("told to shut down node={}", context.membership.self().id);
  const Status sent = co_await done(request);
  request_stop();
  co_return sent;
}

/// A member stays one: the caller did not know that it is. The map is read anew, since a node that
/// was taken out just now may not know it.
Task<Status> join_again(const NodeContext& context, Request& request) {
  CO_TRY_OK(co_await context.view.fresh());
  if (context.membership.dismissed()) CO_TRY_OK(co_await context.membership.come_back());
  const nlohmann::json self = aistore_json(context.membership.self());
  const Status sent = co_await request.exchange.respond(Response(200, http::kJson, self.dump()));
  co_return sent;
}

Result<bool> errors_only(const nlohmann::json& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  return fail(Errc::invalid_argument,
              "reset-stats: \"value\" is true (errors only) or false (everything)");
}

/// The action that a body, or AIStore's path or query, names.
std::string action_of(const Request& request, const api::Action& action) {
  if (!action.action.empty()) return action.action;
  if (request.target.path.ends_with("/set-config")) return "set-config";
  return std::string(request.query().get("action"));
}

Status act(const NodeContext& context, const Request& request, const api::Action& action) {
  const std::string verb = action_of(request, action);
  if (verb == "set-config") {
    TRY(const ConfigChange change, parse_config_change(request.query(), action));
    return context.config.set(change);
  }
  if (verb == "reset-config") return context.config.reset();
  if (verb == "rotate-logs") {
    obs::begin_log();
    obs::log("node").info("log begun anew");
    return {};
  }
  if (verb == "reset-stats") {
    TRY(const bool only_errors, errors_only(action.value));
    context.stats.reset(only_errors);
    return {};
  }
  if (verb == "clear-lcache") {
    if (context.clear_cache) context.clear_cache();
    return {};
  }
  if (verb.empty())
    return fail(Errc::invalid_argument,
                "a PUT to a node needs an action: set-config, reset-config, rotate-logs, "
                "reset-stats or clear-lcache");
  return fail(Errc::unsupported, "action '{}' on a node belongs to later work", verb);
}

}  // namespace

Task<Status> act_on_node(const NodeContext& context, Request& request, std::string body) {
  CO_TRY(const api::Action action, api::parse_action(body));
  CO_TRY_OK(act(context, request, action));
  co_return co_await done(request);
}

Task<Status> put_daemon(const NodeContext& context, Request& request) {
  CO_TRY(std::string body, co_await request.exchange.read_all(api::Action::kBytesMax));
  co_return co_await act_on_node(context, request, std::move(body));
}

std::vector<http::Route> internal_node_routes(const NodeContext& context) {
  return {
      {"PUT", "/v1/internal/config", "answered when that version is in force here",
       [&context](Request& request) { return take_config(context, request); }},
      {"PUT", "/v1/internal/shutdown", "stop as at SIGTERM",
       [&context](Request& request) { return shut_down(context, request); }},
      {"POST", "/v1/internal/join", "be in the cluster again, after it was taken out",
       [&context](Request& request) { return join_again(context, request); }},
  };
}

}  // namespace tarn::cluster
