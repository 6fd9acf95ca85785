#include "proxy/bucket/multi_object.h"

#include <nlohmann/json.hpp>

#include "common/api/multi_object.h"
#include "common/api/upstream_props.h"
#include "common/base/random.h"
#include "common/obs/log.h"
#include "proxy/bucket/bucket_copy.h"
#include "proxy/core/named_error.h"
#include "proxy/core/targets.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/object_job.h"
#include "proxy/object/upstream.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

/// AIStore's clients take the kind of such a job from its id.
constexpr const char* kCopyIdBegin = "tco-";
constexpr std::size_t kIdLength = 10;

Result<Job> multi_object_new_job(const Action& action, const api::Bucket& from,
                                 const api::MultiObject& what, const cluster::ClusterState& state) {
  Job job;
  job.kind = action.action;
  if (action.action == api::kCopyObjects) job.id = kCopyIdBegin + random_id(kIdLength);
  job.bucket = from;
  job.to = what.to;
  job.about = what.about;
  if (what.to)
    job.about = fmt::format("cp {}=>{} {}", from.display(), what.to->display(), what.about);
  if (what.how.dry_run) job.about += " (dry run)";
  TRY(const auto targets, targets_that_may_hold(state));
  for (const cluster::Node* target : targets) job.parts[target->id] = {};
  return job;
}

}  // namespace

bool is_multi_object(const std::string& action) {
  return action == api::kDeleteObjects || action == api::kCopyObjects ||
         action == api::kEvictObjects || action == api::kPrefetchObjects;
}

Task<Status> act_in_bucket(const Services& services, http::Request& request, std::string name) {
  CO_TRY(Action action, co_await read_action(request.exchange));
  if (action.action == "promote")
    co_return fail(Errc::unsupported, "{} belongs to later work", action.action);
  if (action.action != api::kBlobDownload)
    co_return fail(Errc::invalid_argument,
                   "POST /v1/objects/BUCKET does not know the action '{}'; the name of an object "
                   "stands in the path: /v1/objects/BUCKET/OBJECT",
                   action.action);
  CO_TRY_OK(api::check_bucket_name(name));
  CO_TRY(const api::Bucket bucket, api::bucket_from(std::move(name), request.query()));
  CO_TRY_OK(api::check_object_name(action.name));
  if (!action.value.is_object()) action.value = json::object();
  action.value["objnames"] = json::array({action.name});
  const Status done = co_await act_on_objects(services, request, bucket, std::move(action));
  co_return done;
}

Task<Status> act_on_objects(const Services& services, http::Request& request, api::Bucket bucket,
                            Action action, bool synchronize) {
  const bool removes = action.action == api::kDeleteObjects || action.action == api::kEvictObjects;
  if (removes != (request.head().method == http::Method::del))
    co_return fail(Errc::invalid_argument, "{} comes as a {}", action.action,
                   removes ? "DELETE" : "POST");
  CO_TRY(const KnownBucket source, co_await find_or_adopt_bucket(services, bucket));
  const bool needs_upstream = action.action == api::kEvictObjects || api::is_fetch(action.action);
  const bool has_upstream = api::has_upstream(source.record->name);
  if (needs_upstream && !has_upstream) {
    const Error why{Errc::invalid_argument,
                    fmt::format("{}: bucket \"{}\" has nothing upstream that could be fetched{}",
                                action.action, bucket.display(),
                                action.action == api::kEvictObjects
                                    ? " again: its objects can be deleted (delete-listrange)"
                                    : "")};
    const Status sent = co_await refuse_as(request, why, kInvalidProvider);
    co_return sent;
  }
  if (bucket.provider == "ht" && action.action == api::kDeleteObjects)
    co_return fail(no_write_through(bucket));
  CO_TRY(const api::MultiObject what, api::parse_multi_object(action.action, action.value));
  if (what.how.dry_run && what.how.latest && has_upstream)
    co_return fail(Errc::invalid_argument,
                   "{}: a dry run changes nothing, but latest-ver evicts what has changed "
                   "upstream: send one of them",
                   action.action);
  if (action.action == api::kBlobDownload && !what.how.latest) {
    CO_TRY(const bool begins, co_await has_to_fetch(services, source, action.name));
    if (!begins) co_return co_await request.exchange.respond(http::Response(200));
  }
  BucketId to{};
  if (what.to) {
    if (*what.to == bucket && !what.how.dry_run)
      co_return fail(Errc::invalid_argument, "cannot copy objects of bucket \"{}\" into itself",
                     bucket.display());
    if (what.to->provider == "ht") co_return fail(no_write_through(*what.to));
    CO_TRY(const KnownBucket goal, co_await find_or_make_goal(services, *what.to, *source.record));
    to = goal.record->id;
  }
  CO_TRY(Job job, multi_object_new_job(action, bucket, what, *services.view.state()));
  const bool deletes = synchronize || (what.how.synchronize && !what.how.dry_run);
  job.order = order_of_objects(action.value, source.record->id, to, deletes);
  CO_TRY(const std::string id, co_await services.jobs.start(std::move(job)));
  obs::log("proxy").info("{} begun req={} job={} bucket={} {}", action.action,
                         request.exchange.request_id(), id, bucket.display(), what.about);
  const Status sent = co_await request.exchange.respond(http::Response(200, http::kText, id));
  co_return sent;
}

}  // namespace tarn::proxy
