#include "proxy/job_actions.h"

#include <boost/asio/steady_timer.hpp>

#include "proxy/job_queries.h"
#include "proxy/named_error.h"
#include "proxy/peer_jobs.h"

namespace tarn::proxy {
namespace {

using namespace std::chrono_literals;

constexpr auto kStopWait = 10s;

/// Waits until the jobs have ended.
Task<Status> wait_ended(const Services& services, std::vector<std::string> ids) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  const auto deadline = std::chrono::steady_clock::now() + kStopWait;
  for (const std::string& id : ids) {
    for (auto job = services.jobs.find(id); job && job->is_running();
         job = services.jobs.find(id)) {
      if (std::chrono::steady_clock::now() > deadline)
        co_return fail(Errc::unavailable, "job {}[{}] was told to stop and has not ended yet",
                       job->kind, id);
      timer.expires_after(20ms);
      co_await timer.async_wait(asio::use_awaitable);
    }
  }
  co_return Status();
}

/// The jobs that `query` means and that run, asked to stop.
std::vector<std::string> ask_to_stop(const Services& services, const JobQuery& query) {
  std::vector<std::string> asked;
  for (const Job& job : services.jobs.all()) {
    if (!job.is_running() || !matches(job, query)) continue;
    services.jobs.ask_to_stop(job.id);
    // Nobody looks in the middle of a count, and nothing is left of one.
    if (job.kind == "summary-bck") services.jobs.end(job.id, "stopped");
    asked.push_back(job.id);
  }
  return asked;
}

}  // namespace

Task<Status> act_on_jobs(const Services& services, http::Request& request, Action action) {
  CO_TRY(JobQuery query, job_query_from(action.value));
  query.only_running = false;
  const auto state = services.view.state();
  Error unknown{Errc::not_found, ""};
  if (!query.node.empty() && state->map.find(query.node) == nullptr) {
    unknown.message = fmt::format("node '{}' is not in the cluster map", query.node);
    const Status sent = co_await refuse_as(services, request, unknown, kNodeNotFound);
    co_return sent;
  }
  if (action.action == "start" && query.kind.empty())
    co_return fail(Errc::invalid_argument, "start needs the kind of a job");
  if (action.action == "start")
    co_return fail(Errc::unsupported, "starting a job of kind '{}' belongs to later work",
                   query.kind);
  if (query.id.empty() && query.kind.empty())
    co_return fail(Errc::invalid_argument, "stop needs the id or the kind of a job");
  if (!query.id.empty() && !services.jobs.find(query.id)) {
    const KnownJobs known = co_await all_jobs(services);
    for (const Job& job : known.jobs)
      if (job.id == query.id)
        co_return fail(Errc::unsupported,
                       "{} is held by another proxy: stop it at the one that was asked for it",
                       name_of(query));
    if (!known.unanswered.empty()) co_return fail(known.missing(unknown));
    unknown.message = name_of(query) + " does not exist";
    const Status sent = co_await refuse_as(services, request, unknown, kJobNotFound);
    co_return sent;
  }
  CO_TRY_OK(co_await wait_ended(services, ask_to_stop(services, query)));
  const Status sent = co_await request.exchange.respond(http::Response(200));
  co_return sent;
}

}  // namespace tarn::proxy
