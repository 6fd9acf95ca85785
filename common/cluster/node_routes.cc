#include "common/cluster/node_routes.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace tarn::cluster {
namespace {

using http::Request;
using http::Response;
using nlohmann::json;

/// AIStore's bits "cluster started" and "node started".
constexpr unsigned kHealthyFlags = 6;

Response json_response(const json& value) {
  return {200, http::kJson, value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
}

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

json cluster_info(const ClusterState& state) {
  json primary{{"pub_url", ""}, {"control_url", ""}, {"id", state.map.primary}};
  if (const Node* node = state.map.find(state.map.primary)) {
    primary["pub_url"] = node->public_url;
    primary["control_url"] = node->internal_url;
  }
  return {{"smap",
           {{"primary", std::move(primary)},
            {"uuid", state.map.uuid},
            {"version", std::to_string(state.map.version)}}},
          {"bmd", {{"uuid", state.uuid}, {"version", std::to_string(state.bmd.version)}}},
          {"rmd", {{"version", "0"}}},
          {"config", {{"version", "1"}}},
          {"etlmd", {{"version", "0"}}},
          {"flags", kHealthyFlags}};
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
    response = json_response(cluster_info(*state));
  }
  add_uptimes(context, response);
  co_return co_await request.exchange.respond(std::move(response));
}

Task<Status> daemon(const NodeContext& context, Request& request) {
  const auto what = request.query().get("what");
  const auto state = context.view.state();
  Response response(200);
  if (what == "smap") {
    response = json_response(aistore_json(state->map));
  } else if (what == "bmd") {
    json bmd = aistore_json(state->bmd);
    bmd["uuid"] = state->uuid;
    response = json_response(bmd);
  } else if (what == "snode") {
    response = json_response(aistore_json(context.membership.self()));
  } else if (what == "software_version") {
    response = Response(200, http::kText, std::string(kAistoreVersion));
  } else {
    co_return fail(Errc::invalid_argument,
                   "what={} is not known here: known are smap, bmd, snode, software_version", what);
  }
  co_return co_await request.exchange.respond(std::move(response));
}

using ContextHandler = Task<Status> (*)(const NodeContext&, Request&);

http::Route route(const NodeContext& context, std::string_view pattern, std::string_view summary,
                  ContextHandler handler) {
  return {"GET HEAD", pattern, summary,
          [&context, handler](Request& request) { return handler(context, request); }};
}

}  // namespace

std::vector<http::Route> node_routes(const NodeContext& context) {
  return {
      {"GET HEAD", "/healthz", "200 while the event loop turns", healthz},
      route(context, "/readyz", "200 when the node can do its work, else 503 and why", readyz),
      route(context, "/metrics", "metrics in Prometheus' text format", metrics),
      route(context, "/v1/health", "AIStore's health, readiness and cluster info", health),
      route(context, "/v1/daemon", "AIStore's what=smap|bmd|snode|software_version", daemon),
  };
}

}  // namespace tarn::cluster
