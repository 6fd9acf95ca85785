#include "proxy/jobs/downloads.h"

#include <boost/regex.hpp>
#include <nlohmann/json.hpp>

#include "common/api/download.h"
#include "common/api/status.h"
#include "common/api/upstream_props.h"
#include "common/base/random.h"
#include "common/obs/log.h"
#include "proxy/core/named_error.h"
#include "proxy/core/targets.h"
#include "proxy/jobs/download_state.h"
#include "proxy/jobs/job_query.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/peer_jobs.h"
#include "proxy/object/upstream.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::size_t kDownloadIdLength = 9;
constexpr std::size_t kDownloadQueryBytesMax = 16U << 10U;
constexpr std::size_t kRegexBytesMax = 256;
constexpr const char* kDownloadCheckPath = "/v1/internal/download/check";
constexpr std::chrono::seconds kAbortWait{10};

/// Asks a target whether the servers of all links may be asked: each target has the operator's
/// setting, and proxies have not. invalid_argument when not.
Task<Status> check_download_servers(const Services& services, const api::DownloadRequest& what) {
  const auto links = what.servers();
  if (links.empty()) co_return Status();
  const auto state = services.view.state();
  const auto answering = services.suspects.answering();
  CO_TRY(const auto* target, target_for_upstream(*state, *answering));
  http::CallLimits limits;
  limits.is_silent = answering->silence_of(target->id);
  const std::string order = json{{"links", links}}.dump();
  CO_TRY(const auto answer, co_await call_node(services, *target, http::Method::post,
                                               kDownloadCheckPath, limits, order));
  if (answer.status == 200) co_return Status();
  const Errc code = api::errc_of_answer(answer.status, answer.body);
  co_return fail(code == Errc::forbidden ? Errc::invalid_argument : code, "download: {}",
                 api::error_message_of(answer.body));
}

Status check_goal(const api::DownloadRequest& what) {
  const bool has_upstream = api::has_upstream(what.bucket);
  if (what.is_backend() && !has_upstream)
    return fail(Errc::invalid_argument,
                "download: bucket \"{}\" has no upstream from which its objects could come",
                what.bucket.display());
  if (!what.is_backend() && has_upstream)
    return fail(Errc::invalid_argument,
                "download: bucket \"{}\" has an upstream, and its objects come from there: send "
                "type backend, or name a bucket of the cluster itself",
                what.bucket.display());
  if (what.is_backend() && !what.count() && what.bucket.provider == "ht")
    return fail(Errc::invalid_argument,
                "download: bucket \"{}\" is a web server's, which has no list of its files: send "
                "types range or multi with a bucket of the cluster itself, or prefetch by names",
                what.bucket.display());
  return {};
}

Task<Result<api::DownloadQuery>> read_download_query(http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kDownloadQueryBytesMax));
  CO_TRY(api::DownloadQuery out, api::parse_download_query(body));
  const auto& query = request.query();
  if (out.id.empty()) out.id = query.get("id");
  if (out.regex.empty()) out.regex = query.get("regex");
  if (!out.only_active) out.only_active = query.flag("only_active_tasks").value_or(false);
  if (!out.id.empty() && !out.regex.empty())
    co_return fail(Errc::invalid_argument, "download: \"id\" and \"regex\" exclude each other");
  co_return out;
}

/// The download of that id, with fresh progress. not_found for a job of another kind, too.
Task<Result<Job>> find_download(const Services& services, std::string id) {
  if (id.empty())
    co_return fail(Errc::invalid_argument, "download: which one? Say its \"id\" in the body");
  JobQuery query;
  query.id = id;
  query.kind = api::kDownload;
  CO_TRY(auto jobs, co_await matching_jobs(services, query, Progress::fresh));
  if (jobs.empty()) co_return fail(Errc::not_found, "download job \"{}\" does not exist", id);
  co_return std::move(jobs.front());
}

/// True if a part of `text` matches. invalid_argument for what is no regular expression, and for
/// one whose matching takes too long, which Boost notices.
Result<bool> has_match(const std::string& text, const std::string& regex) {
  try {
    return boost::regex_search(text, boost::regex(regex));
  } catch (const std::exception& problem) {
    return fail(Errc::invalid_argument, "download: \"regex\": {}", problem.what());
  }
}

Result<json> matching_downloads(const std::vector<Job>& jobs, const api::DownloadQuery& query) {
  if (query.regex.size() > kRegexBytesMax)
    return fail(Errc::invalid_argument, "download: \"regex\" is longer than {} bytes",
                kRegexBytesMax);
  TRY_OK(has_match("", query.regex));  // so that a wrong one is reported if there are no jobs
  json out = json::array();
  for (const Job& job : jobs) {
    if (query.only_active && !job.is_running()) continue;
    TRY(const bool is_meant, has_match(job.about, query.regex));
    if (is_meant) out.push_back(download_summary(job));
  }
  return out;
}

Task<Status> answer_json(http::Request& request, const json& body) {
  http::Response response(200, http::kJson,
                          body.dump(-1, ' ', false, json::error_handler_t::replace));
  co_return co_await request.exchange.respond(std::move(response));
}

}  // namespace

Task<Status> begin_download(const Services& services, http::Request& request) {
  CO_TRY(const std::string body,
         co_await request.exchange.read_all(api::DownloadRequest::kBytesMax));
  const json asked = json::parse(body, nullptr, false);
  CO_TRY(const api::DownloadRequest what, api::parse_download(asked));
  CO_TRY_OK(check_goal(what));
  CO_TRY(const KnownBucket bucket, co_await find_or_adopt_bucket(services, what.bucket));
  CO_TRY_OK(co_await check_download_servers(services, what));
  Job job;
  job.id = std::string(api::kDownloadIdPrefix) + random_id(kDownloadIdLength);
  job.kind = api::kDownload;
  job.bucket = bucket.record->name;
  job.about = what.description;
  job.order = json{{"value", asked}, {"bucket", raw(bucket.record->id)}}.dump();
  CO_TRY(const auto targets, targets_that_may_hold(*services.view.state()));
  for (const cluster::Node* target : targets) job.parts[target->id] = {};
  CO_TRY(const std::string id, co_await services.jobs.start(std::move(job)));
  obs::log("proxy").info("download begun req={} job={} bucket={}", request.exchange.request_id(),
                         id, what.bucket.display());
  co_return co_await answer_json(request, {{"id", id}});
}

Task<Status> show_downloads(const Services& services, http::Request& request) {
  CO_TRY(const api::DownloadQuery query, co_await read_download_query(request));
  if (!query.id.empty()) {
    const auto job = co_await find_download(services, query.id);
    if (!job && job.error().code == Errc::not_found)
      co_return co_await refuse_as(request, job.error(), kJobNotFound);
    if (!job) co_return fail(job.error());
    co_return co_await answer_json(request, download_status(*job, !query.only_active));
  }
  JobQuery all;
  all.kind = api::kDownload;
  CO_TRY(const auto jobs, co_await matching_jobs(services, all, Progress::fresh));
  CO_TRY(const json found, matching_downloads(jobs, query));
  co_return co_await answer_json(request, found);
}

Task<Status> abort_download(const Services& services, http::Request& request) {
  CO_TRY(const api::DownloadQuery query, co_await read_download_query(request));
  CO_TRY(const Job job, co_await find_download(services, query.id));
  if (job.is_running()) {
    CO_TRY_OK(co_await services.jobs.ask_to_stop(job.id));
    CO_TRY_OK(
        co_await services.jobs.wait_ended(job.id, std::chrono::steady_clock::now() + kAbortWait));
  }
  co_return co_await request.exchange.respond(http::Response(200));
}

Task<Status> remove_download(const Services& services, http::Request& request) {
  CO_TRY(const api::DownloadQuery query, co_await read_download_query(request));
  CO_TRY(const Job job, co_await find_download(services, query.id));
  if (job.is_running())
    co_return fail(Errc::invalid_argument,
                   "download job \"{}\" is running: abort it before it is removed", job.id);
  CO_TRY_OK(co_await services.jobs.remove_ended(job.id));
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace tarn::proxy
