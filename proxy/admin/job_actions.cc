#include "proxy/admin/job_actions.h"

#include <chrono>
#include <utility>

#include "common/api/coding_props.h"
#include "common/api/mirror_props.h"
#include "proxy/admin/job_kinds.h"
#include "proxy/bucket/bucket_copy.h"
#include "proxy/core/named_error.h"
#include "proxy/jobs/job_query.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/peer_jobs.h"
#include "proxy/jobs/rebuild_job.h"
#include "proxy/jobs/recode_job.h"
#include "proxy/jobs/resilver_job.h"
#include "proxy/jobs/scrub_job.h"
#include "proxy/jobs/store_jobs.h"

namespace tarn::proxy {
namespace {

using namespace std::chrono_literals;

constexpr auto kStopWait = 10s;

/// Stops the running jobs that `query` means, whichever proxy drives them.
Task<Status> stop_jobs(const Services& services, JobQuery query) {
  std::vector<std::string> asked;
  CO_TRY(const auto jobs, co_await matching_jobs(services, query, Progress::stored));
  for (const Job& job : jobs) {
    if (!job.is_running()) continue;
    CO_TRY_OK(co_await services.jobs.ask_to_stop(job.id));
    asked.push_back(job.id);
  }
  // Targets make objects whole by themselves, and report it somewhat later.
  if (query.kind == "rebuild" && query.id.empty()) CO_TRY_OK(co_await stop_rebuild(services));
  const auto deadline = std::chrono::steady_clock::now() + kStopWait;
  for (const std::string& id : asked) CO_TRY_OK(co_await services.jobs.wait_ended(id, deadline));
  co_return Status();
}

/// The pass over a mirrored bucket that makes missing copies and removes surplus ones.
Task<Result<std::string>> start_copies(const Services& services, JobQuery query) {
  if (query.buckets.size() != 1)
    co_return fail(Errc::invalid_argument, "make-n-copies is of one bucket: name it as \"Bck\"");
  CO_TRY(const KnownBucket known, co_await find_bucket(services, query.buckets.front()));
  if (api::copies_of(known.record->props) < 2)
    co_return fail(
        Errc::invalid_argument,
        "bucket \"{}\" has no copies on drives: POST /v1/buckets/{} "
        "{{\"action\":\"make-n-copies\",\"value\":2}} gives it some (copies on nodes are "
        "made by their targets, without being asked)",
        known.record->name.display(), known.record->name.name);
  co_return co_await start_copies_job(services, known.record->name);
}

Task<Result<std::string>> start_encode(const Services& services, JobQuery query) {
  if (query.buckets.size() != 1)
    co_return fail(Errc::invalid_argument, "ec-encode is of one bucket: name it as \"Bck\"");
  CO_TRY(const KnownBucket known, co_await find_bucket(services, query.buckets.front()));
  if (!api::was_ever_coded(known.record->props))
    co_return fail(Errc::invalid_argument,
                   "bucket \"{}\" is not coded: POST /v1/buckets/{} {{\"action\":\"ec-encode\"}} "
                   "makes it so",
                   known.record->name.display(), known.record->name.name);
  co_return co_await start_recode(services, known.record->name, false);
}

Task<Result<std::string>> start_job(const Services& services, JobQuery query) {
  if (query.kind.empty()) co_return fail(Errc::invalid_argument, "start needs the kind of a job");
  if (query.kind == "make-n-copies") co_return co_await start_copies(services, std::move(query));
  if (query.kind == "ec-encode") co_return co_await start_encode(services, std::move(query));
  if (is_store_job(query.kind)) co_return co_await start_store_job(services, std::move(query));
  if (query.kind == "rebuild") co_return co_await start_rebuild(services);
  if (query.kind == "scrub") co_return co_await start_scrub(services, query.node);
  if (query.kind != "resilver") co_return fail(cannot_start(query.kind));
  if (query.node.empty())
    co_return fail(Errc::unsupported,
                   "a resilver is of one target: give its id as \"DaemonID\"; of all at once "
                   "belongs to later work");
  co_return co_await start_resilver(services, query.node);
}

}  // namespace

Task<Status> act_on_jobs(const Services& services, http::Request& request, Action action) {
  CO_TRY(JobQuery query, job_query_from(action.value));
  query.only_running = false;
  const auto state = services.view.state();
  Error unknown{Errc::not_found, ""};
  if (!query.node.empty() && state->map.find(query.node) == nullptr) {
    unknown.message = fmt::format("node '{}' is not in the cluster map", query.node);
    const Status sent = co_await refuse_as(request, unknown, kNodeNotFound);
    co_return sent;
  }
  if (action.action == "start") {
    const auto started = co_await start_job(services, std::move(query));
    if (!started && started.error().code == Errc::conflict) {
      const Status sent = co_await refuse_as(request, started.error(), kLimitedCoexistence);
      co_return sent;
    }
    CO_TRY_OK(started);
    const Status sent =
        co_await request.exchange.respond(http::Response(200, http::kText, *started));
    co_return sent;
  }
  if (query.id.empty() && query.kind.empty())
    co_return fail(Errc::invalid_argument, "stop needs the id or the kind of a job");
  if (!query.id.empty()) {
    const auto job = co_await services.jobs.look_up(query.id);
    if (!job && job.error().code != Errc::not_found) co_return fail(job.error());
    if (!job) {
      unknown.message = name_of(query) + " does not exist";
      const Status sent = co_await refuse_as(request, unknown, kJobNotFound);
      co_return sent;
    }
  }
  CO_TRY_OK(co_await stop_jobs(services, std::move(query)));
  const Status sent = co_await request.exchange.respond(http::Response(200));
  co_return sent;
}

}  // namespace tarn::proxy
