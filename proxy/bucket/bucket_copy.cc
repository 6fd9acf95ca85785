#include "proxy/bucket/bucket_copy.h"

#include <nlohmann/json.hpp>

#include "common/api/bucket_copy.h"
#include "common/api/mirror_props.h"
#include "common/api/multi_object.h"
#include "common/api/upstream_props.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/pause.h"
#include "common/cluster/state/bucket_changes.h"
#include "common/obs/log.h"
#include "proxy/bucket/bucket_path.h"
#include "proxy/bucket/multi_object.h"
#include "proxy/core/named_error.h"
#include "proxy/core/targets.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/rebalance_job.h"
#include "proxy/jobs/target_work.h"
#include "proxy/object/assign.h"
#include "proxy/object/upstream.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr const char* kCopy = "copy-bck";
constexpr const char* kRename = "move-bck";
constexpr const char* kMakeCopies = "make-n-copies";
constexpr std::string_view kBucketCopyPath = "/v1/internal/copy";
constexpr std::string_view kMirrorPath = "/v1/internal/mirror";
const std::vector<const cluster::Node*> kNone;
constexpr std::chrono::milliseconds kStoreAgain{500};
/// Longer than a lease: a target that does not acknowledge has lost its own by then.
constexpr std::chrono::seconds kBucketCopyAcknowledgeWait{15};

/// The bucket in bck_to=, which must be one of ours.
Result<api::Bucket> destination_of(const http::Request& request) {
  const auto text = request.query().get("bck_to");
  if (text.empty())
    return fail(Errc::invalid_argument,
                "bck_to= is missing: the destination, such as bck_to=ais/@#/photos/ (encoded)");
  TRY(api::Bucket to, api::parse_bucket_uname(text));
  const bool is_ours = to.provider == "ais" && to.ns_uuid.empty();
  if (to.provider == "ht") return fail(no_write_through(to));
  if (!is_ours && !api::has_upstream(to))
    return fail(Errc::unsupported,
                "bucket \"{}\" cannot be the destination: buckets of this provider belong to later "
                "work",
                to.display());
  return to;
}

/// A copy of a bucket by its names: of one with an upstream it is one of all that upstream has.
Task<Status> copy_by_names(const Services& services, http::Request& request,
                           const api::Bucket& from, const api::Bucket& to, const json& value,
                           const api::BucketCopy& what) {
  const bool deletes = what.synchronize && !what.dry_run;
  Action all;
  all.action = api::kCopyObjects;
  all.value = json::object();
  for (const auto& [key, each] : value.items())  // its other keys are those of a copy-listrange
    if (!iequals(key, "prefix") && !iequals(key, "synchronize") && !iequals(key, "latest-ver"))
      all.value[key] = each;
  all.value["template"] = what.prefix;
  all.value["latest-ver"] = what.latest;
  all.value["tobck"] = to;
  co_return co_await act_on_objects(services, request, from, std::move(all), deletes);
}

/// Text of all input of placement: it stays the same while targets only go down and come back.
std::string placement(const cluster::ClusterState& state) {
  std::string out;
  for (const auto& member : state.ownership->map->members)
    out += fmt::format("{} {} {} {} {}\n", member.id, member.weight, member.drives,
                       member.flags & ~std::uint64_t{cluster::kDown}, member.zone);
  return out;
}

/// The newest state, as soon as it comes from the meta store.
Task<Result<std::shared_ptr<const cluster::ClusterState>>> newest_state(const Services& services,
                                                                        std::string job) {
  while (true) {
    auto state = co_await services.view.fresh();
    if (state || services.jobs.should_stop(job)) co_return state;
    co_await pause(kStoreAgain);
  }
}

/// Keeps a job of `kind` from and to these buckets from starting beside one that runs.
Jobs::Refusal refusal(const std::string& kind, const api::Bucket& from, const api::Bucket& to) {
  return [=](const Job& job) -> std::string {
    if (job.kind != kCopy) return "";
    const bool same = job.bucket == from && job.to == to;
    const bool touches = job.bucket == from || job.bucket == to || job.to == from || job.to == to;
    if (kind == kCopy ? !same : !touches) return "";
    return fmt::format("{}[{}] ({}) is currently running, cannot run \"{}\"({} => {}) concurrently",
                       job.kind, job.id, job.about, kind, from.display(), to.display());
  };
}

/// Answers a start that was refused, in AIStore's words.
Task<Status> refuse_start(http::Request& request, Error why) {
  if (why.code != Errc::conflict) co_return fail(std::move(why));
  const Status sent = co_await refuse_as(request, std::move(why), kLimitedCoexistence);
  co_return sent;
}

std::string about_copy(const api::Bucket& from, const api::Bucket& to,
                       const api::BucketCopy& what) {
  const auto part = [](const std::string& prefix) { return prefix.empty() ? "" : "/" + prefix; };
  return fmt::format("cp {}{}=>{}{}{}", from.display(), part(what.prefix), to.display(),
                     part(what.prepend), what.dry_run ? " (dry run)" : "");
}

Job bucket_copy_new_job(const char* kind, const api::Bucket& from, const api::Bucket& to,
                        std::string about, const cluster::ClusterState& state) {
  Job job;
  job.kind = kind;
  job.bucket = from;
  job.to = to;
  job.about = std::move(about);
  for (const cluster::Node* target : targets_that_may_hold(state).value_or(kNone))
    job.parts[target->id] = {};
  return job;
}

Status check_buckets(const cluster::ClusterState& state, std::initializer_list<BucketId> buckets) {
  for (const BucketId bucket : buckets)
    if (state.bmd.find(bucket) == nullptr)
      return fail(Errc::bucket_not_found, "a bucket of the job was destroyed meanwhile");
  return {};
}

TargetWork work_for(const cluster::ClusterState& state, std::string_view path, json order) {
  TargetWork work{.path = std::string(path), .order = std::move(order)};
  work.order["bmd"] = state.bmd.version;
  for (const cluster::Node* target : targets_that_may_hold(state).value_or(kNone))
    work.targets.push_back(target->id);
  return work;
}

}  // namespace

Task<Result<KnownBucket>> find_or_make_goal(const Services& services, api::Bucket name,
                                            const cluster::BucketRecord& source) {
  auto found = co_await find_bucket(services, name);
  if (found || !is_unknown_bucket(found.error())) co_return found;
  if (api::has_upstream(name)) co_return co_await find_or_adopt_bucket(services, name);
  CO_TRY_OK(co_await check_path_is_no_object(services, name));
  // Of a bucket with an upstream hardly any property fits another one.
  cluster::BucketProps props = source.props;
  if (api::has_upstream(source.name)) {
    CO_TRY(props, cluster::bucket_defaults(services.view.state()->config));
  }
  const auto made =
      co_await cluster::create_bucket(services.store, services.view, name, props, services.clock);
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
  CO_TRY(const KnownBucket source, co_await find_or_adopt_bucket(services, from));
  // presence=2: the objects that the cluster has of it, and none is fetched.
  const bool is_all = request.query().get("presence") != "2";
  if (what.synchronize && api::has_upstream(from) && !is_all)
    co_return fail(Errc::invalid_argument,
                   "copy-bck: \"synchronize\" goes by all that upstream has: leave presence=2 out");
  const bool is_by_names =
      (api::has_upstream(from) && is_all) || (what.synchronize && api::has_upstream(to));
  if (is_by_names && from != to)
    co_return co_await copy_by_names(services, request, from, to, action.value, what);
  if (from == to && !what.dry_run)
    co_return fail(Errc::invalid_argument, "cannot copy bucket \"{}\" onto itself", from.display());
  CO_TRY(const KnownBucket goal, co_await find_or_make_goal(services, to, *source.record));
  const auto& state = *goal.state;
  Job job = bucket_copy_new_job(kCopy, from, to, about_copy(from, to, what), state);
  job.order =
      json{{"from", raw(source.record->id)}, {"to", raw(goal.record->id)}, {"what", what}}.dump();
  Jobs::Refusal refuse;
  if (!what.force) refuse = refusal(kCopy, from, to);
  const auto started = co_await services.jobs.start(std::move(job), std::move(refuse));
  if (!started) co_return co_await refuse_start(request, started.error());
  const std::string& id = *started;
  obs::log("proxy").info("bucket copy begun req={} job={} from={} to={}",
                         request.exchange.request_id(), id, from.display(), to.display());
  const Status sent = co_await request.exchange.respond(http::Response(200, http::kText, id));
  co_return sent;
}

Task<Result<std::string>> start_copies_job(const Services& services, api::Bucket name) {
  CO_TRY(const KnownBucket bucket, co_await find_bucket(services, name));
  const bool on_nodes = bucket.record->replica_count().many();
  const int copies =
      on_nodes ? api::node_copies_of(bucket.record->props) : api::copies_of(bucket.record->props);
  Job job =
      bucket_copy_new_job(kMakeCopies, name, name, fmt::format("copies:{}", copies), *bucket.state);
  job.to.reset();
  json order{{"bucket", raw(bucket.record->id)}};
  if (on_nodes) order["since"] = bucket.record->replica_count_since();
  job.order = order.dump();
  CO_TRY(const std::string id, co_await services.jobs.start(std::move(job)));
  obs::log("proxy").info("copies job begun job={} bucket={} copies={}", id, name.display(), copies);
  co_return id;
}

Task<Status> rename_bucket(const Services& services, http::Request& request, api::Bucket from) {
  CO_TRY(const api::Bucket to, destination_of(request));
  if (from == to)
    co_return fail(Errc::invalid_argument, "bucket \"{}\" has that name", from.display());
  if (from.provider != "ais" || !from.ns_uuid.empty() || to.provider != "ais")
    co_return fail(Errc::unsupported,
                   "bucket \"{}\" cannot be renamed: it stands for one that lies elsewhere",
                   from.display());
  CO_TRY_OK(co_await check_path_is_no_object(services, to));
  const auto state = services.view.state();
  Job job = bucket_copy_new_job(kRename, from, to,
                                fmt::format("mv {}=>{}", from.display(), to.display()), *state);
  const auto* record = state->bmd.find(from);
  CO_TRY(const std::string given_by, co_await cluster::name_given_by(services.store, from));
  job.order =
      json{{"bucket", record == nullptr ? 0 : raw(record->id)}, {"given_by", given_by}}.dump();
  const auto done = co_await services.jobs.carry_out(std::move(job), refusal(kRename, from, to));
  if (!done) co_return co_await refuse_start(request, done.error());
  const Status sent = co_await request.exchange.respond(http::Response(200, http::kText, *done));
  co_return sent;
}

/// Objects that move from target to target while their targets copy could be missed by both: then
/// all is looked through again when they are in place.
Task<Status> drive_bucket_copy(const Services& services, Job job) {
  const json order = json::parse(job.order);
  const auto from = BucketId{order.at("from").get<std::uint64_t>()};
  const auto to = BucketId{order.at("to").get<std::uint64_t>()};
  const auto what = order.at("what").get<api::BucketCopy>();
  for (bool again = job.runs > 1;; again = true) {
    CO_TRY(const auto state, co_await newest_state(services, job.id));
    CO_TRY_OK(check_buckets(*state, {from, to}));
    CO_TRY_OK(targets_that_may_hold(*state));
    TargetWork work = work_for(*state, kBucketCopyPath, order);
    work.continue_on_error = what.continue_on_error;
    work.order["again"] = again;
    const Status worked = co_await work_on_targets(services, job, std::move(work));
    CO_TRY(const auto now, co_await newest_state(services, job.id));
    CO_TRY_OK(check_buckets(*now, {from, to}));  // a better message than that of the targets
    CO_TRY_OK(worked);
    if (state->map.past.empty() && placement(*state) == placement(*now)) co_return Status();
    CO_TRY_OK(co_await wait_until_in_place(services, job.id));
  }
}

Task<Status> drive_make_copies(const Services& services, Job job) {
  const json order = json::parse(job.order);
  const auto bucket = BucketId{order.at("bucket").get<std::uint64_t>()};
  if (order.contains("since")) {
    const auto since = order["since"].get<std::uint64_t>();
    co_return co_await watch_copies_on_nodes(services, std::move(job), bucket, since);
  }
  CO_TRY(const auto state, co_await newest_state(services, job.id));
  CO_TRY_OK(check_buckets(*state, {bucket}));
  CO_TRY_OK(targets_that_may_hold(*state));
  TargetWork work = work_for(*state, kMirrorPath, order);
  work.continue_on_error = true;
  co_return co_await work_on_targets(services, job, std::move(work));
}

Task<Status> drive_bucket_rename(const Services& services, Job job) {
  const api::Bucket from = job.bucket.value();
  const api::Bucket to = job.to.value();
  const json order = json::parse(job.order);
  const BucketId id{order.at("bucket").get<std::uint64_t>()};
  // A client without an answer may have renamed it by another call, and back: this one is of the
  // past.
  std::optional<std::string> given_by;
  if (order.contains("given_by")) given_by = order.at("given_by").get<std::string>();
  bool done = false;
  if (job.runs > 1 && id != BucketId{}) {  // maybe done, and `from` another bucket now
    CO_TRY(const auto state, co_await newest_state(services, job.id));
    const auto* record = state->bmd.find(id);
    if (record == nullptr || (record->name != from && record->name != to))
      co_return fail(Errc::bucket_not_found, "bucket \"{}\" was renamed or destroyed meanwhile",
                     from.display());
    done = record->name == to;
  }
  if (!done) {
    const auto renamed =
        co_await cluster::rename_bucket(services.store, services.view, from, to, given_by);
    if (!renamed && renamed.error().code == Errc::bucket_not_found)
      co_return fail(bucket_not_found(from));
    CO_TRY_OK(renamed);
  }
  const std::uint64_t version = services.view.state()->bmd.version;
  const Status seen = co_await cluster::wait_acknowledged(services.store, services.view, version,
                                                          kBucketCopyAcknowledgeWait);
  CO_FAIL_POINT("rename_bucket.before_reply");
  if (!seen)
    co_return fail(Errc::unavailable,
                   "bucket \"{}\" is \"{}\" now, but not all targets know yet: {}", from.display(),
                   to.display(), seen.error().message);
  obs::log("proxy").info("bucket renamed job={} from={} to={} bmd={}", job.id, from.display(),
                         to.display(), version);
  co_return Status();
}

}  // namespace tarn::proxy
