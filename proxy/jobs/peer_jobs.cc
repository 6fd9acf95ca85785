#include "proxy/jobs/peer_jobs.h"

#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/gather.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/rebuild_job.h"
#include "proxy/jobs/rebuild_waits.h"
#include "proxy/jobs/resilver_job.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::string_view kPeerJobsPath = "/v1/internal/jobs";
constexpr http::CallLimits kPeerJobsLimits{.total = std::chrono::seconds(2)};

/// The jobs that one proxy drives, by their ids.
using Driven = std::map<std::string, Job>;

Task<Result<Driven>> peer_jobs_ask(const Services& services, const cluster::Node& proxy) {
  CO_TRY(const auto answer, co_await call_node(services, proxy, http::Method::get,
                                               std::string(kPeerJobsPath), kPeerJobsLimits));
  if (answer.status != 200)
    co_return fail(Errc::unavailable, "proxy {} answers {}", proxy.id, answer.status);
  const json records = json::parse(answer.body, nullptr, false);
  if (!records.is_array()) co_return fail(Errc::internal, "proxy {} did not answer JSON", proxy.id);
  Driven out;
  for (const json& each : records) {
    CO_TRY(Job job, decode_job(each.is_string() ? each.get<std::string>() : ""));
    out[job.id] = std::move(job);
  }
  co_return out;
}

Task<Status> tell(const Services& services, http::Request& request) {
  json out = json::array();
  for (const Job& job : services.jobs.driven()) out.push_back(encode(job));
  http::Response response(200, http::kJson, out.dump());
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

/// Updates `jobs` from the other proxies that drive them. A job that its driver does not have has
/// just ended: the store has its result.
Task<void> ask_drivers(const Services& services, std::vector<Job>& jobs) {
  const auto state = services.view.state();
  std::set<std::string> drivers;
  for (const Job& job : jobs)
    if (job.is_running() && job.driver.proxy != services.node_id() &&
        state->live.contains(job.driver.proxy) && state->map.find(job.driver.proxy) != nullptr)
      drivers.insert(job.driver.proxy);
  std::vector<Task<Result<Driven>>> calls;
  calls.reserve(drivers.size());
  for (const std::string& id : drivers)
    calls.push_back(peer_jobs_ask(services, *state->map.find(id)));
  const auto answers = co_await gather(std::move(calls));
  auto answer = answers.begin();
  for (const std::string& id : drivers) {
    const auto& driven = *answer++;
    if (!driven) continue;
    for (Job& job : jobs) {
      if (!job.is_running() || job.driver.proxy != id) continue;
      if (const auto found = driven->find(job.id); found != driven->end()) {
        job = found->second;
        continue;
      }
      auto stored = co_await services.jobs.look_up(job.id);
      if (stored) job = std::move(*stored);
    }
  }
}

}  // namespace

Task<Result<std::vector<Job>>> matching_jobs(const Services& services, JobQuery query,
                                             Progress progress) {
  std::vector<Job> out;
  JobQuery any = query;
  any.only_running = false;
  if (!query.id.empty()) {
    auto job = co_await services.jobs.look_up(query.id);
    if (!job && job.error().code != Errc::not_found) co_return fail(job.error());
    if (job && matches(*job, any)) out.push_back(std::move(*job));
  } else {
    // Without the store: the jobs that are known here.
    static_cast<void>(co_await services.jobs.catch_up());
    for (Job& job : services.jobs.all())
      if (matches(job, any)) out.push_back(std::move(job));
  }
  if (progress == Progress::fresh) co_await ask_drivers(services, out);
  std::erase_if(out, [&](const Job& job) { return !matches(job, query); });
  co_return out;
}

std::vector<http::Route> peer_job_routes(const Services& services) {
  return {{"GET", kPeerJobsPath, "the jobs that this proxy drives, for the others",
           [&services](http::Request& request) { return tell(services, request); }},
          {"POST", "/v1/internal/resilver", "a target wants objects moved between its drives",
           [&services](http::Request& request) { return note_resilver(services, request); }},
          {"POST", "/v1/internal/rebuild", "a target makes objects whole, which a job shall show",
           [&services](http::Request& request) { return note_rebuild(services, request); }},
          {"GET", "/v1/internal/absences", "for how long targets have been away",
           [&services](http::Request& request) { return tell_absences(services, request); }}};
}

}  // namespace tarn::proxy
