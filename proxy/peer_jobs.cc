#include "proxy/peer_jobs.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/gather.h"
#include "proxy/node_calls.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::string_view kPath = "/v1/internal/jobs";
constexpr http::CallLimits kLimits{.total = std::chrono::seconds(2)};

json job_json(const Job& job) {
  json parts = json::object();
  for (const auto& [target, part] : job.parts) {
    json sent = json::object();
    for (const auto& [to, moved] : part.sent) sent[to] = {moved.objects, moved.bytes};
    parts[target] = {{"objects", part.objects},
                     {"bytes", part.bytes},
                     {"ended", part.ended_ns},
                     {"sent", std::move(sent)}};
  }
  json out{{"id", job.id},
           {"kind", job.kind},
           {"about", job.about},
           {"started", job.started_ns},
           {"ended", job.ended_ns},
           {"error", job.error},
           {"stop_asked", job.stop_asked},
           {"aborted", job.aborted},
           {"parts", std::move(parts)},
           {"results", job.results}};
  if (job.bucket) out["bucket"] = *job.bucket;
  if (job.to) out["to"] = *job.to;
  return out;
}

JobPart part_from(const json& in) {
  JobPart part;
  in.at("objects").get_to(part.objects);
  in.at("bytes").get_to(part.bytes);
  in.at("ended").get_to(part.ended_ns);
  for (const auto& [to, moved] : in.at("sent").items()) {
    moved.at(0).get_to(part.sent[to].objects);
    moved.at(1).get_to(part.sent[to].bytes);
  }
  return part;
}

Job job_from(const json& in) {
  Job job;
  in.at("id").get_to(job.id);
  in.at("kind").get_to(job.kind);
  in.at("about").get_to(job.about);
  in.at("started").get_to(job.started_ns);
  in.at("ended").get_to(job.ended_ns);
  in.at("error").get_to(job.error);
  in.at("stop_asked").get_to(job.stop_asked);
  in.at("aborted").get_to(job.aborted);
  in.at("results").get_to(job.results);
  for (const auto& [target, part] : in.at("parts").items()) job.parts[target] = part_from(part);
  if (in.contains("bucket")) job.bucket = in.at("bucket").get<api::Bucket>();
  if (in.contains("to")) job.to = in.at("to").get<api::Bucket>();
  return job;
}

Task<Result<std::vector<Job>>> ask(const Services& services, const cluster::Node& proxy) {
  CO_TRY(const auto answer,
         co_await call_node(services, proxy, http::Method::get, std::string(kPath), kLimits));
  if (answer.status != 200)
    co_return fail(Errc::unavailable, "proxy {} answers {}", proxy.id, answer.status);
  try {
    std::vector<Job> jobs;
    for (const json& each : json::parse(answer.body)) jobs.push_back(job_from(each));
    co_return jobs;
  } catch (const std::exception& problem) {
    co_return fail(Errc::internal, "proxy {}: {}", proxy.id, problem.what());
  }
}

Task<Status> tell(const Services& services, http::Request& request) {
  json out = json::array();
  for (const Job& job : services.jobs.all()) out.push_back(job_json(job));
  http::Response response(200, http::kJson, out.dump());
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

}  // namespace

Error KnownJobs::missing(Error not_found) const {
  if (unanswered.empty()) return not_found;
  return {Errc::unavailable, "not all proxies tell of their jobs now: " + unanswered};
}

Task<KnownJobs> all_jobs(const Services& services) {
  KnownJobs out;
  out.jobs = services.jobs.all();
  const auto state = services.view.state();
  std::vector<Task<Result<std::vector<Job>>>> calls;
  for (const auto& [id, node] : state->map.nodes)
    if (node.role == cluster::Role::proxy && id != services.node_id() && state->live.contains(id))
      calls.push_back(ask(services, node));
  const auto answers = co_await gather(std::move(calls));
  for (const auto& answer : answers) {
    if (!answer) {
      out.unanswered = answer.error().message;
      continue;
    }
    out.jobs.insert(out.jobs.end(), answer->begin(), answer->end());
  }
  std::sort(out.jobs.begin(), out.jobs.end(), [](const Job& a, const Job& b) {
    return std::pair(a.started_ns, a.id) < std::pair(b.started_ns, b.id);
  });
  co_return out;
}

std::vector<http::Route> peer_job_routes(const Services& services) {
  return {{"GET", kPath, "the jobs of this proxy, for the others",
           [&services](http::Request& request) { return tell(services, request); }}};
}

}  // namespace tarn::proxy
