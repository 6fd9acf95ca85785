#include "common/cluster/admin/node_routes.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/cluster/admin/daemon.h"
#include "common/cluster/admin/node_actions.h"

namespace tarn::cluster {
namespace {

using http::Request;
using http::Response;
using nlohmann::json;

/// "2026-08-21 10:11:12" as Unix nanoseconds; 0 when it is none.
std::int64_t created_ns(const std::string& text) {
  std::tm time{};
  if (::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &time) == nullptr) return 0;
  return static_cast<std::int64_t>(::timegm(&time)) * 1'000'000'000;
}

void add_uptimes(const NodeContext& context, Response& response) {
  const std::int64_t node_ns = (context.clock.boot_time() - context.started).count();
  const std::int64_t cluster_ns =
      context.clock.wall_time().count() - created_ns(context.view.state()->map.creation_time);
  response.set("Ais-Node-Uptime", std::to_string(std::max<std::int64_t>(node_ns, 1)));
  response.set("Ais-Cluster-Uptime", std::to_string(std::max<std::int64_t>(cluster_ns, 1)));
}

Task<Status> healthz(Request& request) {
  co_return co_await request.exchange.respond({200, http::kText, "ok\n"});
}

Task<Status> readyz(const NodeContext& context, Request& request) {
  const Status ready = context.ready();
  if (ready) co_return co_await request.exchange.respond({200, http::kText, "ready\n"});
  Response response(503, http::kText, ready.error().message + "\n");
  response.set("Retry-After", "1");
  co_return co_await request.exchange.respond(std::move(response));
}

Task<Status> metrics(const NodeContext& context, Request& request) {
  Response response(200, obs::Metrics::kContentType, context.metrics.text());
  co_return co_await request.exchange.respond(std::move(response));
}

Task<Status> health(const NodeContext& context, Request& request) {
  const auto& query = request.query();
  CO_TRY(const bool readiness, query.flag("readiness"));
  CO_TRY(const bool prr, query.flag("prr"));
  CO_TRY(const bool apr, query.flag("apr"));
  CO_TRY(const bool cii, query.flag("cii"));
  CO_TRY(const bool cii_apr, query.flag("cii-apr"));
  const auto state = context.view.state();
  Status verdict;
  if (readiness || prr || cii || cii_apr) verdict = context.ready();
  const bool is_primary = state->map.primary == context.membership.self().id;
  if (verdict && (prr || apr || cii_apr) && !is_primary)
    verdict = fail(Errc::unavailable, "node {} is not the primary, {} is",
                   context.membership.self().id, state->map.primary);
  Response response(200);
  if (!verdict) {
    response = Response(503, http::kText, verdict.error().message + "\n");
  } else if (cii || cii_apr) {
    response = json_response(cluster_info_json(*state, state_flags(context.drive_reports())));
  }
  add_uptimes(context, response);
  co_return co_await request.exchange.respond(std::move(response));
}

Task<Status> daemon(const NodeContext& context, Request& request) {
  CO_TRY(Response response, answer_daemon(context, request.query()));
  co_return co_await request.exchange.respond(std::move(response));
}

using ContextHandler = Task<Status> (*)(const NodeContext&, Request&);

http::Route route(const NodeContext& context, std::string_view pattern, std::string_view summary,
                  ContextHandler handler, std::string_view methods = "GET HEAD") {
  return {methods, pattern, summary,
          [&context, handler](Request& request) { return handler(context, request); }};
}

}  // namespace

std::vector<http::Route> node_routes(const NodeContext& context) {
  const auto put = [&context](Request& request) { return put_daemon(context, request); };
  return {
      {"GET HEAD", "/healthz", "200 while the event loop turns", healthz},
      route(context, "/readyz", "200 when the node can do its work, else 503 and why", readyz),
      route(context, "/metrics", "metrics in Prometheus' text format", metrics),
      route(context, "/v1/health", "AIStore's health, readiness and cluster info", health),
      route(context, "/v1/daemon", "what this node is and does: what=", daemon),
      {"PUT", "/v1/daemon", "set-config, reset-config, rotate-logs, reset-stats", put},
      {"PUT", "/v1/daemon/set-config", "log.level=", put},
  };
}

}  // namespace tarn::cluster
