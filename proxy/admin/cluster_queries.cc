#include "proxy/admin/cluster_queries.h"

#include <set>

#include <nlohmann/json.hpp>

#include "common/api/status.h"
#include "common/base/encoding.h"
#include "common/base/gather.h"
#include "common/cluster/admin/daemon.h"
#include "common/cluster/admin/node_report.h"
#include "common/http/error_response.h"
#include "proxy/admin/chosen_node.h"
#include "proxy/admin/job_answers.h"
#include "proxy/admin/rebalance.h"
#include "proxy/admin/rebuild_plan.h"
#include "proxy/admin/redundancy.h"
#include "proxy/admin/safe_to_stop.h"
#include "proxy/core/action.h"
#include "proxy/core/named_error.h"
#include "proxy/core/staleness.h"
#include "proxy/jobs/peer_jobs.h"
#include "proxy/jobs/rebuild_job.h"
#include "proxy/jobs/scrub_job.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::string_view kDaemon = "/v1/daemon?";
constexpr std::string_view kKnown =
    "smap, bmd, snode, cluster_config, node_stats, sysinfo, mountpaths, remote, backends, "
    "target_ips, rebalance, rebuild, rebuild_plan, scrub, redundancy, safe_to_stop, status, "
    "status_all, running_all, qryxstats";

/// An answer of another node as a value or its error.
Result<json> json_of(const cluster::Node& node, const http::ClientResponse& answer) {
  if (answer.status != 200)
    return fail(api::errc_of_answer(answer.status, answer.body), "node {}: {}", node.id,
                api::error_message_of(answer.body));
  json out = json::parse(answer.body, nullptr, false);
  if (out.is_discarded()) return fail(Errc::internal, "node {} did not answer JSON", node.id);
  return out;
}

/// {"<id>": its answer} for all targets at once. With `partial`, {"error": why} of those that do
/// not answer.
Task<Result<json>> ask_targets(const Services& services, std::string what, bool partial = false) {
  const auto state = services.view.state();
  std::vector<const cluster::Node*> targets;
  for (const auto& [id, node] : state->map.nodes)
    if (node.role == cluster::Role::target) targets.push_back(&node);
  std::vector<Task<Result<http::ClientResponse>>> calls;
  calls.reserve(targets.size());
  for (const cluster::Node* target : targets)
    calls.push_back(
        call_node(services, *target, http::Method::get, std::string(kDaemon) + "what=" + what));
  const auto answers = co_await gather(std::move(calls));
  json out = json::object();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    auto said = answers[i] ? json_of(*targets[i], *answers[i]) : fail(answers[i].error());
    if (!said && !partial) co_return fail(said.error());
    out[targets[i]->id] = said ? std::move(*said) : json{{"error", said.error().message}};
  }
  co_return out;
}

/// "10.0.0.6,10.0.0.7": each address once.
std::string target_addresses(const cluster::ClusterState& state) {
  std::set<std::string> found;
  for (const auto& [id, node] : state.map.nodes)
    if (const auto url = http::parse_url(node.public_url);
        url && node.role == cluster::Role::target)
      found.insert(url->host);
  std::string out;
  for (const std::string& address : found) out += (out.empty() ? "" : ",") + address;
  return out;
}

/// The answer, or the error that there is no such job.
Result<http::Response> job_answer(const http::Request& request, const Result<json>& found) {
  if (found) return cluster::json_response(*found);
  if (found.error().code != Errc::not_found) return fail(found.error());
  return http::error_response(request.exchange, found.error(), kJobNotFound);
}

Task<Result<http::Response>> answer_jobs(const Services& services, std::string what,
                                         const http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(Action::kBytesMax));
  CO_TRY(const JobQuery query, parse_job_query(body));
  if (!query.node.empty() && services.view.state()->map.find(query.node) == nullptr)
    co_return http::error_response(request.exchange, node_unknown(query.node), kNodeNotFound);
  const auto progress = what == "qryxstats" ? Progress::fresh : Progress::stored;
  CO_TRY(const auto jobs, co_await matching_jobs(services, query, progress));
  if (what == "status") co_return job_answer(request, job_status(jobs, query));
  if (what == "status_all") co_return cluster::json_response(job_status_all(jobs, query));
  if (what == "running_all") co_return cluster::json_response(running_jobs(jobs, query));
  const auto state = services.view.state();
  std::vector<std::string> targets;
  for (const auto& [id, node] : state->map.nodes)
    if (node.role == cluster::Role::target) targets.push_back(id);
  co_return job_answer(request, job_snaps(jobs, query, targets));
}

Task<Result<http::Response>> answer_cluster(const Services& services,
                                            const http::Request& request) {
  const std::string what(request.query().get("what"));
  const auto state = services.view.state();
  for (const char* same : {"smap", "bmd", "snode", "remote"})
    if (what == same) co_return cluster::answer_daemon(services.node, request.query());
  if (what == "cluster_config")
    co_return cluster::json_response(cluster::cluster_config_json(*state, state->config.values));
  if (what == "backends") co_return cluster::json_response(json{"aws", "azure", "gcp", "ht"});
  if (what == "target_ips") co_return http::Response(200, http::kText, target_addresses(*state));
  if (what == "mountpaths") {
    CO_TRY(const bool partial, request.query().flag("partial"));
    CO_TRY(const json paths, co_await ask_targets(services, what, partial));
    co_return cluster::json_response(paths);
  }
  if (what == "redundancy") co_return co_await answer_redundancy(services, request);
  if (what == "node_stats") {
    CO_TRY(json targets, co_await ask_targets(services, what));
    co_return cluster::json_response({{"proxy", cluster::node_status_json(services.node, false)},
                                      {"target", std::move(targets)}});
  }
  if (what == "sysinfo") {
    CO_TRY(json targets, co_await ask_targets(services, what));
    json proxies{{services.node_id(), cluster::sys_info_json(services.node.stats)}};
    co_return cluster::json_response(
        {{"proxy", std::move(proxies)}, {"target", std::move(targets)}});
  }
  if (what == "safe_to_stop") co_return co_await answer_safe_to_stop(services, request);
  if (what == "rebalance") co_return co_await tell_rebalance(services);
  if (what == "rebuild") co_return co_await tell_rebuild(services);
  if (what == "rebuild_plan") co_return co_await tell_rebuild_plan(services);
  if (what == "scrub") co_return co_await tell_scrub(services);
  for (const char* each : {"status", "status_all", "running_all", "qryxstats"})
    if (what == each) co_return co_await answer_jobs(services, what, request);
  co_return fail(Errc::invalid_argument, "what={} is not known here: known are {}", what, kKnown);
}

/// AIStore's word for a node in maintenance that does not run; else none. Its clients show all
/// nodes, and take an error of one for an error of all.
std::string_view aside_and_down(const cluster::ClusterState& state, const cluster::Node& node) {
  if (state.live.contains(node.id)) return "";
  if ((node.flags & cluster::kDecommission) != 0) return "decommission";
  return (node.flags & cluster::kMaintenance) != 0 ? "maintenance" : "";
}

/// what=node_status of such a node.
json status_of_absent(const cluster::Node& node, std::string_view status) {
  return {{"snode", cluster::aistore_json(node)},
          {"status", status},
          {"deployment", ""},
          {"ais_version", ""},
          {"build_time", ""},
          {"k8s_pod_name", ""},
          {"smap_version", ""},
          {"tracker", json::object()},
          {"capacity", cluster::capacity_json({})}};
}

}  // namespace

Task<Status> query_cluster(const Services& services, http::Request& request) {
  CO_TRY(http::Response response, co_await answer_cluster(services, request));
  CO_TRY_OK(mark_staleness(services, request.head(), response));
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

Task<Status> query_node(const Services& services, http::Request& request) {
  const auto state = services.view.state();
  const auto chosen = chosen_node(services, *state, request);
  if (!chosen) {
    const Status refused = co_await refuse_node(request, chosen.error());
    co_return refused;
  }
  const cluster::Node* node = *chosen;
  http::Response response;
  if (node == nullptr) {
    CO_TRY(response, cluster::answer_daemon(services.node, request.query()));
  } else if (const auto word = aside_and_down(*state, *node);
             !word.empty() && request.query().get("what") == "node_status") {
    response = cluster::json_response(status_of_absent(*node, word));
  } else {
    CO_TRY(const auto answer, co_await call_node(services, *node, http::Method::get,
                                                 std::string(kDaemon) + request.query().encode()));
    response = relayed(answer);
  }
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

Task<Status> list_absent_jobs(const Services& services, http::Request& request) {
  if (request.head().method != http::Method::get)
    co_return fail(Errc::unsupported, "{} belongs to later work", request.target.path);
  CO_TRY(const std::string body, co_await request.exchange.read_all(Action::kBytesMax));
  CO_TRY(const JobQuery query, parse_job_query(body));
  const std::string_view asked = request.query().get("id");
  const std::string id = query.id.empty() ? std::string(asked) : query.id;
  if (!id.empty()) {
    const Error unknown{Errc::not_found, fmt::format("job \"{}\" does not exist", id)};
    const Status refused = co_await refuse_as(request, unknown, kJobNotFound);
    co_return refused;
  }
  const Status sent = co_await request.exchange.respond(cluster::json_response(json::array()));
  co_return sent;
}

}  // namespace tarn::proxy
