#include "proxy/bucket_copy.h"

#include <nlohmann/json.hpp>

#include "common/api/bucket_copy.h"
#include "common/api/mirror_props.h"
#include "common/api/status.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/obs/log.h"
#include "proxy/list.h"
#include "proxy/named_error.h"
#include "proxy/target_lines.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr const char* kCopy = "copy-bck";
constexpr const char* kRename = "move-bck";
constexpr const char* kMakeCopies = "make-n-copies";
constexpr std::string_view kPath = "/v1/internal/copy";
constexpr std::string_view kMirrorPath = "/v1/internal/mirror";
const std::vector<const cluster::Node*> kNone;
/// Longer than a lease: a target that does not acknowledge has lost its own by then.
constexpr std::chrono::seconds kAcknowledgeWait{15};

/// The bucket in bck_to=, which must be one of ours.
Result<api::Bucket> destination_of(const http::Request& request) {
  const auto text = request.query().get("bck_to");
  if (text.empty())
    return fail(Errc::invalid_argument,
                "bck_to= is missing: the destination, such as bck_to=ais/@#/photos/ (encoded)");
  TRY(api::Bucket to, api::parse_bucket_uname(text));
  if (to.provider != "ais" || !to.ns_uuid.empty())
    return fail(Errc::unsupported,
                "bucket \"{}\" cannot be the destination: upstream buckets belong to later work",
                to.display());
  return to;
}

/// What is shared by those that follow the targets of one copy; they run on one loop.
struct Watch {
  std::string job;
  std::string order;  ///< the body for each target
  std::string_view path = kPath;
  bool continue_on_error = false;
  bool failed = false;  ///< the others need not go on
};

/// Takes a target's line into the job. True behind its last one.
Result<bool> take_line(const Services& services, const std::string& target, const Watch& watch,
                       const std::string& line) {
  api::CopyProgress progress;
  try {
    json::parse(line).get_to(progress);
  } catch (const json::exception& problem) {
    return fail(Errc::internal, "target t[{}]: {}", target, problem.what());
  }
  // A part that failed ends with the job, which has the error: who sees all parts done looks there.
  const bool is_good_end = progress.done && progress.error.empty();
  const auto now = is_good_end ? services.clock.wall_time().count() : 0;
  services.jobs.update(watch.job, [&](Job& job) {
    if (job.is_running())
      job.parts[target] = {progress.objects, progress.bytes, now, std::move(progress.sent)};
  });
  if (!progress.error.empty()) return fail(Errc::io, "target t[{}]: {}", target, progress.error);
  return progress.done;
}

/// Has one target do its part and reads how far it is, to its end. Tells it to stop when a user
/// says so or another target has failed.
Task<Status> read_progress(const Services& services, const cluster::Node& target, Watch& watch) {
  const TargetJob job{std::string(watch.path), watch.job, watch.order};
  const auto take = [&](const std::string& line) {
    return take_line(services, target.id, watch, line);
  };
  const auto should_stop = [&] { return watch.failed || services.jobs.should_stop(watch.job); };
  const Status done = co_await follow_lines(services, target, job, take, should_stop);
  co_return done;
}

Task<Status> follow_target(const Services& services, const cluster::Node& target, Watch& watch) {
  Status done = co_await read_progress(services, target, watch);
  if (done) co_return done;
  // A target says itself what went wrong; that it went away is for us to say.
  const bool is_said = done.error().message.starts_with("target t[");
  if (!is_said || !watch.continue_on_error) watch.failed = true;
  if (is_said) co_return done;
  co_return fail(
      Errc::unavailable,
      "target t[{}] went away during the copy: {}. What was copied is there, the rest is "
      "not: copy again",
      target.id, done.error().message);
}

Task<void> run_copy(const Services& services, std::shared_ptr<const cluster::ClusterState> state,
                    std::string job, std::string order, bool continue_on_error,
                    std::string_view path) {
  Watch watch{job, std::move(order), path, continue_on_error};
  try {
    std::vector<Task<Status>> follows;
    for (const cluster::Node* target : targets_that_may_hold(*state).value_or(kNone))
      follows.push_back(follow_target(services, *target, watch));
    const auto ends = co_await gather(std::move(follows));
    std::string error;
    for (const Status& end : ends)
      if (!end && (error.empty() || error.ends_with("told to stop"))) error = end.error().message;
    services.jobs.end(job, error);
    if (error.empty())
      obs::log("proxy").info("bucket job done job={}", job);
    else
      obs::log("proxy").warn("bucket job not done job={} err={}", job, error);
  } catch (...) {  // cancelled: the task group sees to it
    services.jobs.end(job, "the proxy is stopping");
    throw;
  }
}

/// What keeps a job of `kind` from and to these buckets from starting beside one that runs.
Jobs::Refusal refusal(std::string kind, api::Bucket from, api::Bucket to) {
  return [=](const Job& job) -> std::string {
    if (job.kind != kCopy) return "";
    const bool same = job.bucket == from && job.to == to;
    const bool touches = job.bucket == from || job.bucket == to || job.to == from || job.to == to;
    if (kind == kCopy ? !same : !touches) return "";
    return fmt::format("{}[{}] ({}) is currently running, cannot run \"{}\"({} => {}) concurrently",
                       job.kind, job.id, job.about, kind, from.display(), to.display());
  };
}

/// Starts it and returns its id, or tells the client in AIStore's words what is in its way: then
/// the id is empty.
Task<Result<std::string>> start_or_refuse(const Services& services, http::Request& request, Job job,
                                          Jobs::Refusal refuse) {
  auto started = services.jobs.start(std::move(job), refuse);
  if (started || started.error().code != Errc::conflict) co_return started;
  CO_TRY_OK(co_await refuse_as(services, request, started.error(), kLimitedCoexistence));
  co_return std::string();
}

std::string about_copy(const api::Bucket& from, const api::Bucket& to,
                       const api::BucketCopy& what) {
  const auto part = [](const std::string& prefix) { return prefix.empty() ? "" : "/" + prefix; };
  return fmt::format("cp {}{}=>{}{}{}", from.display(), part(what.prefix), to.display(),
                     part(what.prepend), what.dry_run ? " (dry run)" : "");
}

Job new_job(const char* kind, const api::Bucket& from, const api::Bucket& to, std::string about,
            const cluster::ClusterState& state) {
  Job job;
  job.kind = kind;
  job.bucket = from;
  job.to = to;
  job.about = std::move(about);
  for (const cluster::Node* target : targets_that_may_hold(state).value_or(kNone))
    job.parts[target->id] = {};
  return job;
}

}  // namespace

Task<Result<KnownBucket>> find_or_make_goal(const Services& services, api::Bucket name,
                                            const cluster::BucketRecord& source) {
  auto found = co_await find_bucket(services, name);
  if (found || found.error().code != Errc::bucket_not_found) co_return found;
  const auto made = co_await cluster::create_bucket(services.store, services.view, name,
                                                    source.props, services.clock);
  if (!made && made.error().code != Errc::bucket_exists) co_return fail(made.error());
  if (made)
    obs::log("proxy").info("bucket created for a copy bucket={} id={}", name.display(),
                           raw(made->id));
  auto now = co_await find_bucket(services, name);
  co_return now;
}

Task<Status> copy_bucket(const Services& services, http::Request& request, api::Bucket from,
                         Action action) {
  CO_TRY(const api::Bucket to, destination_of(request));
  CO_TRY(const api::BucketCopy what, api::parse_bucket_copy(action.value));
  CO_TRY(const KnownBucket source, co_await find_bucket(services, from));
  if (from == to && !what.dry_run)
    co_return fail(Errc::invalid_argument, "cannot copy bucket \"{}\" onto itself", from.display());
  CO_TRY(const KnownBucket goal, co_await find_or_make_goal(services, to, *source.record));
  const auto& state = *goal.state;
  Jobs::Refusal refuse = [](const Job&) { return ""; };
  if (!what.force) refuse = refusal(kCopy, from, to);
  CO_TRY(const std::string id,
         co_await start_or_refuse(services, request,
                                  new_job(kCopy, from, to, about_copy(from, to, what), state),
                                  std::move(refuse)));
  if (id.empty()) co_return Status();
  const json order{{"job", id},
                   {"from", raw(source.record->id)},
                   {"to", raw(goal.record->id)},
                   {"bmd", state.bmd.version},
                   {"what", what}};
  const auto executor = co_await asio::this_coro::executor;
  if (!services.tasks.spawn(executor, run_copy(services, goal.state, id, order.dump(),
                                               what.continue_on_error, kPath)))
    co_return fail(Errc::unavailable, "this proxy is stopping");
  obs::log("proxy").info("bucket copy begun req={} job={} from={} to={}",
                         request.exchange.request_id(), id, from.display(), to.display());
  const Status sent = co_await request.exchange.respond(http::Response(200, http::kText, id));
  co_return sent;
}

Task<Result<std::string>> start_copies_job(const Services& services, api::Bucket name) {
  CO_TRY(const KnownBucket bucket, co_await find_bucket(services, name));
  const int copies = api::copies_of(bucket.record->props);
  Job job = new_job(kMakeCopies, name, name, fmt::format("copies:{}", copies), *bucket.state);
  job.to.reset();
  CO_TRY(const std::string id, services.jobs.start(std::move(job)));
  const json order{
      {"job", id}, {"bucket", raw(bucket.record->id)}, {"bmd", bucket.state->bmd.version}};
  const auto executor = co_await asio::this_coro::executor;
  if (!services.tasks.spawn(executor,
                            run_copy(services, bucket.state, id, order.dump(), true, kMirrorPath)))
    co_return fail(Errc::unavailable, "this proxy is stopping");
  obs::log("proxy").info("copies job begun job={} bucket={} copies={}", id, name.display(), copies);
  co_return id;
}

Task<Status> rename_bucket(const Services& services, http::Request& request, api::Bucket from) {
  CO_TRY(const api::Bucket to, destination_of(request));
  if (from == to)
    co_return fail(Errc::invalid_argument, "bucket \"{}\" has that name", from.display());
  if (from.provider != "ais" || !from.ns_uuid.empty())
    co_return fail(Errc::unsupported,
                   "bucket \"{}\" cannot be renamed: upstream buckets belong to later work",
                   from.display());
  const std::string about = fmt::format("mv {}=>{}", from.display(), to.display());
  CO_TRY(const std::string id,
         co_await start_or_refuse(services, request,
                                  new_job(kRename, from, to, about, *services.view.state()),
                                  refusal(kRename, from, to)));
  if (id.empty()) co_return Status();
  const auto renamed = co_await cluster::rename_bucket(services.store, services.view, from, to);
  if (!renamed) {
    services.jobs.forget(id);
    if (renamed.error().code == Errc::bucket_not_found) co_return fail(bucket_not_found(from));
    co_return fail(renamed.error());
  }
  const std::uint64_t version = services.view.state()->bmd.version;
  const Status seen =
      co_await cluster::wait_acknowledged(services.store, services.view, version, kAcknowledgeWait);
  CO_FAIL_POINT("rename_bucket.before_reply");
  services.jobs.end(id, seen ? "" : seen.error().message);
  if (!seen)
    co_return fail(Errc::unavailable,
                   "bucket \"{}\" is \"{}\" now, but not all targets know yet: {}", from.display(),
                   to.display(), seen.error().message);
  obs::log("proxy").info("bucket renamed req={} from={} to={} id={} bmd={}",
                         request.exchange.request_id(), from.display(), to.display(),
                         raw(renamed->id), version);
  const Status sent = co_await request.exchange.respond(http::Response(200, http::kText, id));
  co_return sent;
}

}  // namespace tarn::proxy
