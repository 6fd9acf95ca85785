#include "proxy/jobs/summary.h"

#include <variant>

#include <nlohmann/json.hpp>

#include "common/api/status.h"
#include "common/api/summary.h"
#include "common/api/upstream_props.h"
#include "common/base/encoding.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/base/resume.h"
#include "common/cluster/admin/daemon.h"
#include "proxy/core/staleness.h"
#include "proxy/core/targets.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/target_counts.h"
#include "proxy/list/list.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kSummaryLookEvery = 100ms;

constexpr const char* kSummaryKind = "summary-bck";
/// All targets' counts of one bucket together; each shows in the job as soon as it is there.
Task<Result<api::BucketSummary>> summary_count_bucket(const Services& services,
                                                      const cluster::ClusterState& state,
                                                      const cluster::BucketRecord& bucket,
                                                      const std::string& prefix,
                                                      const std::string& job) {
  // While names move, one that was written anew at its new replica counts twice.
  CO_TRY(const auto targets, targets_that_may_hold(state));
  api::Query query;
  query.set("bucket", std::to_string(raw(bucket.id)));
  query.set("bmd", std::to_string(state.bmd.version));
  query.set("prefix", prefix);
  const std::string path = "/v1/internal/summary?" + query.encode();
  std::vector<Task<Result<api::BucketSummary>>> calls;
  calls.reserve(targets.size());
  for (const cluster::Node* target : targets)
    calls.push_back(ask_counts<api::BucketSummary>(services, *target, path));
  const auto counts = co_await gather(std::move(calls));
  api::BucketSummary sum;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    CO_TRY_OK(counts[i]);
    sum.add(*counts[i]);
    services.jobs.update(job, [&](Job& each) {
      each.parts[targets[i]->id].objects += counts[i]->objects;
      each.parts[targets[i]->id].bytes += counts[i]->bytes;
    });
  }
  co_return sum;
}

/// Counts the objects of all targets and, if `remote`, those of upstream.
Task<Result<api::BucketSummary>> summary_count_all(const Services& services, KnownBucket bucket,
                                                   std::string prefix, bool remote,
                                                   std::string job) {
  CO_TRY(api::BucketSummary sum,
         co_await summary_count_bucket(services, *bucket.state, *bucket.record, prefix, job));
  if (!remote || !api::has_upstream(bucket.record->name)) co_return sum;
  const auto upstream = co_await count_upstream(services, bucket, std::move(prefix));
  // A web server without a list has no names that could be counted.
  if (!upstream && upstream.error().code != Errc::unsupported) co_return fail(upstream.error());
  if (upstream) {
    sum.remote_objects = upstream->objects;
    sum.remote_bytes = upstream->bytes;
  }
  co_return sum;
}

/// Ends when a user stops the job: a count may take minutes.
Task<void> wait_stopped(const Services& services, std::string job) {
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!services.jobs.should_stop(job) && !co_await is_cancelled())
    co_await pause(kSummaryLookEvery);
}

Task<Result<std::string>> start(const Services& services,
                                std::shared_ptr<const cluster::ClusterState> state,
                                std::vector<api::Bucket> buckets, std::string prefix, bool remote) {
  Job job;
  job.kind = kSummaryKind;
  if (buckets.size() == 1) job.bucket = buckets.front();
  if (!prefix.empty()) job.about = "prefix:" + prefix;
  job.order = json{{"buckets", buckets}, {"prefix", prefix}, {"remote", remote}}.dump();
  CO_TRY(const auto targets, targets_that_may_hold(*state));
  for (const cluster::Node* target : targets) job.parts[target->id] = {};
  co_return co_await services.jobs.start(std::move(job));
}

Task<Result<Job>> find_job(const Services& services, std::string id) {
  auto job = co_await services.jobs.look_up(id);
  if (!job && job.error().code != Errc::not_found) co_return job;
  if (!job || job->kind != kSummaryKind)
    co_return fail(Errc::not_found, "there is no summary with the id '{}'", id);
  if (job->aborted) co_return fail(Errc::conflict, "summary {} was stopped by a user", id);
  if (!job->error.empty()) co_return fail(Errc::unavailable, "summary {}: {}", id, job->error);
  co_return job;
}

http::Response results_answer(const Job& job) {
  std::string body = "[";
  for (const std::string& result : job.results) body += (body.size() > 1 ? "," : "") + result;
  const unsigned running = job.results.empty() ? 202 : 206;
  return {job.is_running() ? running : 200, http::kJson, body + "]\n"};
}

/// Returns the value of a key, in any case; null when it is absent or null.
Result<json> summary_field(const json& message, std::string_view key) {
  if (message.is_null()) return json();
  if (!message.is_object())
    return fail(Errc::invalid_argument, "summary: \"value\" is no JSON object");
  for (const auto& [name, value] : message.items())
    if (iequals(name, key) && !value.is_null()) return value;
  return json();
}

/// Returns a text of the message, "" by default.
Result<std::string> summary_text_of(const json& message, std::string_view key) {
  TRY(const json value, summary_field(message, key));
  if (value.is_null()) return "";
  if (!value.is_string()) return fail(Errc::invalid_argument, "summary: {} is no string", key);
  return value.get<std::string>();
}

/// True if the message has "cached": only objects that the cluster has. False by default.
Result<bool> is_cached_only(const json& message) {
  TRY(const json value, summary_field(message, "cached"));
  if (value.is_null()) return false;
  if (!value.is_boolean())
    return fail(Errc::invalid_argument, "summary: cached is neither true nor false");
  return value.get<bool>();
}

}  // namespace

Task<Status> summarize(const Services& services, http::Request& request, std::string bucket,
                       const json& message) {
  CO_TRY(const std::string id, summary_text_of(message, "uuid"));
  CO_TRY(const std::string prefix, summary_text_of(message, "prefix"));
  CO_TRY_OK(api::check_prefix(prefix));
  CO_TRY(const bool cached_only, is_cached_only(message));
  http::Response response(202);
  if (id.empty()) {
    std::vector<api::Bucket> buckets;
    auto state = services.view.state();
    CO_TRY(const api::Bucket wanted, api::bucket_from(bucket, request.query()));
    if (!bucket.empty()) {
      CO_TRY(const KnownBucket known, co_await find_bucket(services, wanted));
      state = known.state;
      buckets.push_back(wanted);
    } else {
      const bool any = request.query().get("provider").empty();
      for (const auto& [name, record] : state->bmd.buckets)
        if (any || name.provider == wanted.provider) buckets.push_back(name);
    }
    CO_TRY(const std::string job,
           co_await start(services, state, std::move(buckets), prefix, !cached_only));
    response = http::Response(202, http::kText, job);
  } else {
    CO_TRY(const Job job, co_await find_job(services, id));
    response = results_answer(job);
  }
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

Task<Status> bucket_info(const Services& services, http::Request& request, KnownBucket bucket,
                         std::string prefix) {
  CO_TRY_OK(api::check_prefix(prefix));
  CO_TRY(const bool remote, request.query().flag("bsumm_remote"));
  std::string id(request.query().get("uuid"));
  http::Response response(202);
  if (id.empty()) {
    CO_TRY(id, co_await start(services, bucket.state, {bucket.record->name}, prefix, remote));
  } else {
    CO_TRY(const Job job, co_await find_job(services, id));
    if (!job.is_running()) {
      response = http::Response(200);
      response.set("Ais-Bucket-Summ", job.results.at(0));
    }
  }
  response.set("Ais-Xaction-Id", id);
  response.set("Ais-Bucket-Props", cluster::aistore_props(*bucket.record).dump());
  CO_TRY_OK(mark_staleness(services, request.head(), response));
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

Task<Status> drive_summary(const Services& services, Job job) {
  const json order = json::parse(job.order);
  const auto prefix = order.at("prefix").get<std::string>();
  const bool remote = order.value("remote", false);  // not known to older versions
  auto state = services.view.state();
  if (job.runs > 1) {
    CO_TRY(state, co_await services.view.fresh());
  }
  for (const auto& name : order.at("buckets").get<std::vector<api::Bucket>>()) {
    const auto* record = state->bmd.find(name);
    if (record == nullptr)
      co_return fail(Errc::bucket_not_found, "bucket \"{}\" was destroyed meanwhile",
                     name.display());
    auto ended =
        co_await first_of(summary_count_all(services, {state, record}, prefix, remote, job.id),
                          wait_stopped(services, job.id));
    if (ended.index() == 1) co_return fail(Errc::cancelled, "stopped");
    const auto& sum = std::get<0>(ended);
    CO_TRY_OK(sum);
    services.jobs.update(
        job.id, [&](Job& each) { each.results.push_back(aistore_summary(name, *sum).dump()); });
  }
  co_return Status();
}

}  // namespace tarn::proxy
