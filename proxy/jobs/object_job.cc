#include "proxy/jobs/object_job.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/api/status.h"
#include "common/api/upstream_props.h"
#include "common/base/check.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/base/random.h"
#include "common/base/read_json.h"
#include "common/obs/log.h"
#include "proxy/jobs/job_patience.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/name_source.h"
#include "proxy/jobs/target_lines.h"
#include "proxy/list/list.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::string_view kObjectJobPath = "/v1/internal/objects";
/// Names that are handed out at once; all of them are done before the next ones are.
constexpr std::size_t kNamesOfTarget = 256;
constexpr std::size_t kNamesMax = 32'768;
constexpr std::size_t kLookIdLength = 10;
/// Time for which a copy that is done shows as idle.
constexpr auto kIdle = 10s;

/// Such a job, as its record has it.
struct ObjectJob {
  std::string id;
  std::string kind;
  BucketId bucket{};
  BucketId to{};  ///< of a copy
  api::MultiObject what;
  bool again = false;     ///< some of it may have been done before
  bool upstream = false;  ///< concerns all that upstream has, not only the cluster's objects
  /// Bucket whose names the deletes after a copy leave; those deletes are not counted.
  BucketId unless_in{};
};

Result<ObjectJob> read_job(const Job& job) {
  const json order = json::parse(job.order);
  ObjectJob out{.id = job.id, .kind = job.kind, .what = {}, .again = job.runs > 1};
  out.bucket = BucketId{order.at("bucket").get<std::uint64_t>()};
  out.to = BucketId{order.at("to").get<std::uint64_t>()};
  TRY(out.what, api::parse_multi_object(job.kind, order.at("value")));
  out.what.how.synchronize = order.value("synchronize", false);
  out.upstream = job.kind != api::kEvictObjects && job.bucket && api::has_upstream(*job.bucket);
  // Deletes go by the list of upstream, and so do the copies.
  if (out.what.how.synchronize && out.upstream) out.what.how.latest = true;
  return out;
}

/// The word for the work on an object.
std::string_view done_by(std::string_view kind) {
  if (kind == api::kCopyObjects) return "copied";
  if (kind == api::kEvictObjects) return "evicted";
  return api::is_fetch(kind) ? "fetched" : "deleted";
}

NameSource source_of(const Services& services, const ObjectJob& job, BucketId bucket,
                     bool upstream) {
  return {services, bucket, job.what,
          upstream ? NameSource::Names::all : NameSource::Names::in_cluster};
}

/// Reads a line of progress of a batch. True: it is the last one.
Result<bool> parse_batch_line(const std::string& target, const std::string& line,
                              api::BatchProgress& out) {
  TRY(out,
      parse_json<api::BatchProgress>(line, Errc::internal, fmt::format("target t[{}]", target)));
  return out.counts.done;
}

Error destroyed() { return {Errc::bucket_not_found, "the bucket was destroyed meanwhile"}; }

/// One run of a job. All of it runs on one loop.
class ObjectRun {
 public:
  ObjectRun(const Services& services, const ObjectJob& job)
      : services_(services),
        job_(job),
        source_(source_of(services, job, job.bucket, job.upstream)),
        patience_(services, job.id) {}

  /// Leaves out the names of another bucket.
  void leave_out(BucketId bucket, bool upstream) {
    source_.leave_out(source_of(services_, job_, bucket, upstream));
  }

  Task<Status> run();
  /// Lets a job whose work is done be seen as idle. False when a user stopped it meanwhile.
  Task<bool> stay_idle();

 private:
  struct Item {
    std::string name;
    bool again = false;   ///< sent before, and the outcome is unknown
    bool unsure = false;  ///< sent before, and its target does not know: not counted yet
  };
  /// Items that one target is to do.
  struct Share {
    const cluster::Node* target = nullptr;
    std::vector<Item> items;
  };
  Task<Result<std::vector<Item>>> next_items();
  Task<Status> work_off(std::vector<Item> items);
  std::vector<Share> share_out(const cluster::ClusterState& state, std::vector<Item> items);
  Task<Status> send(std::shared_ptr<const cluster::ClusterState> state, Share share);
  Task<Status> settle(Share share, api::BatchProgress progress);
  Result<bool> take_line(const std::string& target, const JobPart& before, const std::string& line,
                         api::BatchProgress& out);
  void show(const std::string& target, const JobPart& part);
  [[nodiscard]] std::optional<double> seconds_left() const;
  void note_failure(const std::string& why);
  void note_missing(const Item& item, const std::string& target);
  [[nodiscard]] bool should_stop() const { return services_.jobs.should_stop(job_.id); }
  [[nodiscard]] bool copies() const { return job_.what.to.has_value(); }
  [[nodiscard]] bool fetches() const { return api::is_fetch(job_.kind); }

  const Services& services_;
  const ObjectJob& job_;
  NameSource source_;
  std::map<std::string, JobPart> parts_;
  std::vector<Item> left_;  // of a round: to be sent again
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::uint64_t handled_ = 0;
  std::uint64_t missing_ = 0;
  std::uint64_t failed_ = 0;
  std::string first_missing_;
  std::string first_failure_;
  std::string why_later_;
  JobPatience patience_;
};

Task<Status> ObjectRun::run() {
  while (true) {
    if (should_stop()) co_return fail(Errc::cancelled, "told to stop");
    auto items = co_await next_items();
    if (!items) co_return fail(items.error());
    if (items->empty()) break;
    CO_TRY_OK(co_await work_off(std::move(*items)));
  }
  if (failed_ > 0)
    co_return fail(Errc::io, "{} objects could not be {}, the first: {}", failed_,
                   done_by(job_.kind), first_failure_);
  // A copy that synchronizes removes missing objects from the destination as well.
  if (missing_ > 0 && !job_.what.how.continue_on_error && !job_.what.how.synchronize)
    co_return fail(Errc::object_not_found, "{} of the {} objects do not exist, the first: {}",
                   missing_, job_.what.names.size(), first_missing_);
  co_return Status();
}

Task<Result<std::vector<ObjectRun::Item>>> ObjectRun::next_items() {
  while (true) {
    const std::size_t targets = services_.view.state()->map.placeable_targets().size();
    const std::size_t limit = std::clamp(targets * kNamesOfTarget, kNamesOfTarget, kNamesMax);
    auto names = co_await source_.next(limit);
    if (names) {
      patience_.worked();
      std::vector<Item> out;
      out.reserve(names->size());
      for (std::string& name : *names) out.push_back({std::move(name), job_.again});
      co_return out;
    }
    if (names.error().code == Errc::bucket_not_found) co_return fail(destroyed());
    if (!JobPatience::may_pass(names.error().code)) co_return fail(names.error());
    CO_TRY_OK(co_await patience_.wait(names.error().message));
  }
}

/// Sends all of them until each is done.
Task<Status> ObjectRun::work_off(std::vector<Item> items) {
  while (!items.empty()) {
    if (should_stop()) co_return fail(Errc::cancelled, "told to stop");
    // A driver that stood still for long must not delete objects that were stored since.
    const bool ours = co_await services_.jobs.is_ours(job_.id);
    if (!ours) co_return fail(Errc::cancelled, "another proxy drives the job now");
    auto state = services_.view.state();
    if (state->bmd.find(job_.bucket) == nullptr) {
      CO_TRY(state, co_await services_.view.fresh());
    }
    if (state->bmd.find(job_.bucket) == nullptr) co_return fail(destroyed());
    const std::uint64_t before = handled_;
    left_.clear();
    std::vector<Task<Status>> sent;
    for (Share& share : share_out(*state, std::move(items)))
      sent.push_back(send(state, std::move(share)));
    const auto ends = co_await gather(std::move(sent));
    for (const Status& end : ends) CO_TRY_OK(end);
    items = std::move(left_);
    if (handled_ > before) {
      patience_.worked();
      continue;
    }
    const Status waited = co_await patience_.wait(why_later_);
    if (waited) continue;
    if (waited.error().code == Errc::cancelled || !job_.what.how.continue_on_error)
      co_return waited;
    // The rest of the job is tried all the same, but not waited for again.
    patience_.shorten();
    for (const Item& item : items) note_failure(item.name + ": " + why_later_);
    items.clear();
  }
  co_return Status();
}

/// Items by their owner, at most a batch for each; the rest goes to left_.
std::vector<ObjectRun::Share> ObjectRun::share_out(const cluster::ClusterState& state,
                                                   std::vector<Item> items) {
  const auto* bucket = state.bmd.find(job_.bucket);
  TARN_CHECK(bucket != nullptr);
  std::size_t to_go = left_.size() + items.size();
  std::map<const cluster::Node*, std::vector<Item>> shares;
  for (Item& item : items) {
    const auto* owner = cluster::owner_of(state.map, bucket->placement_name(item.name));
    if (owner == nullptr) why_later_ = "no target of the cluster owns names now";
    const bool goes = owner != nullptr && shares[owner].size() < api::ObjectBatch::kNamesMax;
    (goes ? shares[owner] : left_).push_back(std::move(item));
  }
  std::vector<Share> out;
  out.reserve(shares.size());
  for (auto& [target, names] : shares) {
    TARN_CHECK(names.size() <= api::ObjectBatch::kNamesMax);
    to_go -= names.size();
    out.push_back({target, std::move(names)});
  }
  TARN_CHECK(to_go == left_.size());  // none is done twice, or never
  return out;
}

Result<bool> ObjectRun::take_line(const std::string& target, const JobPart& before,
                                  const std::string& line, api::BatchProgress& out) {
  TRY(const bool is_last, parse_batch_line(target, line, out));
  JobPart part = before;
  part.objects += out.counts.objects;
  part.bytes += out.counts.bytes;
  for (const auto& [to, sent] : out.counts.sent) {
    part.sent[to].objects += sent.objects;
    part.sent[to].bytes += sent.bytes;
  }
  show(target, part);
  return is_last;
}

/// Has one target, of `state`, do its share. Errors only for faults that end the job.
Task<Status> ObjectRun::send(std::shared_ptr<const cluster::ClusterState> state, Share share) {
  const cluster::Node& target = *share.target;
  api::ObjectBatch batch;
  batch.job = job_.id;
  batch.copies = copies();
  batch.fetches = fetches();
  batch.upstream = job_.upstream && job_.kind == api::kDeleteObjects;
  batch.bucket = raw(job_.bucket);
  batch.to = raw(job_.to);
  batch.bmd_version = state->bmd.version;
  batch.map_version = state->map.version;
  batch.unless_in = raw(job_.unless_in);
  batch.how = job_.what.how;
  for (const Item& item : share.items) {
    batch.names.push_back(item.name);
    batch.again = batch.again || item.again;
  }
  const TargetJob order{std::string(kObjectJobPath), job_.id, json(batch).dump()};
  const JobPart before = parts_[target.id];
  api::BatchProgress progress;
  const auto take = [&](const std::string& line) {
    return take_line(target.id, before, line, progress);
  };
  const Status done =
      co_await follow_lines(services_, target, order, take, [this] { return should_stop(); });
  if (done) {
    const Status settled = co_await settle(std::move(share), std::move(progress));
    co_return settled;
  }
  const Errc code = done.error().code;
  // The target has not noticed yet that its last batch is no longer followed.
  const bool runs_another = api::http_status(code) == 409;
  if (!JobPatience::may_pass(code) && !runs_another)
    co_return fail(code, "target t[{}]: {}", target.id, done.error().message);
  why_later_ = fmt::format("target t[{}]: {}", target.id, done.error().message);
  if (copies()) show(target.id, before);  // all of it is copied again, and counted then
  for (Item& item : share.items) {
    item.again = true;
    left_.push_back(std::move(item));
  }
  if (runs_another) {
    const std::string path = fmt::format("{}?job={}", kObjectJobPath, job_.id);
    static_cast<void>(co_await call_node(services_, target, http::Method::del, path));
  }
  co_return Status();
}

/// Takes in a target's report at the end of its batch.
Task<Status> ObjectRun::settle(Share share, api::BatchProgress progress) {
  if (!progress.counts.error.empty())
    co_return fail(Errc::io, "target t[{}]: {}", share.target->id, progress.counts.error);
  for (const auto& [index, why] : progress.failed)
    note_failure(share.items.at(index).name + ": " + why);
  if (failed_ > 0 && !job_.what.how.continue_on_error)
    co_return fail(Errc::io, "{}", first_failure_);
  for (const std::uint32_t index : progress.unsure) share.items.at(index).unsure = true;
  for (const std::uint32_t index : progress.missing)
    note_missing(share.items.at(index), share.target->id);
  for (const std::uint32_t index : progress.later)
    left_.push_back(std::move(share.items.at(index)));
  handled_ += share.items.size() - progress.later.size();
  if (!progress.later.empty()) why_later_ = progress.why_later;
  if (progress.map_version > services_.view.state()->map.version)
    static_cast<void>(co_await services_.view.at_least(progress.map_version, 0));
  co_return Status();
}

void ObjectRun::note_missing(const Item& item, const std::string& target) {
  if (item.unsure) {  // so it was deleted then
    JobPart part = parts_[target];
    ++part.objects;
    show(target, part);
  }
  // Some names of a template may be missing; one that was sent twice may have been ours.
  if (!job_.what.is_list() || item.unsure || (item.again && !copies())) return;
  const auto state = services_.view.state();
  const auto* bucket = state->bmd.find(job_.bucket);
  if (missing_++ == 0)
    first_missing_ =
        (bucket == nullptr ? "" : bucket->name.display() + "/") + item.name + " does not exist";
}

Task<bool> ObjectRun::stay_idle() {
  const auto now = services_.clock.wall_time().count();
  services_.jobs.update(job_.id, [&](Job& job) {
    for (auto& [target, part] : job.parts) part.ended_ns = now;
  });
  const auto until = std::chrono::steady_clock::now() + kIdle;
  while (std::chrono::steady_clock::now() < until) {
    if (should_stop()) co_return false;
    co_await pause(50ms);
  }
  co_return true;
}

/// Estimate at the mean rate so far. For a prefetch alone: AIStore's clients expect it of no other
/// such job.
std::optional<double> ObjectRun::seconds_left() const {
  const auto total = source_.total();
  std::uint64_t done = 0;  // also of batches that are under way
  for (const auto& [target, part] : parts_) done += part.objects;
  done = std::max(done, handled_);
  if (!fetches() || !total || done == 0 || done >= *total) return std::nullopt;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun_;
  return took.count() / static_cast<double>(done) * static_cast<double>(*total - done);
}

void ObjectRun::show(const std::string& target, const JobPart& part) {
  parts_[target] = part;
  if (job_.unless_in != BucketId{}) return;
  api::CopyProgress progress;
  progress.objects = part.objects;
  progress.bytes = part.bytes;
  progress.sent = part.sent;
  services_.jobs.update(job_.id, [&, seconds = seconds_left()](Job& job) {
    take_progress(job, target, progress, 0);
    job.seconds_left = seconds;
  });
}

void ObjectRun::note_failure(const std::string& why) {
  if (failed_++ == 0) first_failure_ = why;
}

/// Has the owner of a name do `batch` with it, outside of any job. object_not_found when there is
/// no such object; unavailable when it cannot be done now.
Task<Result<api::BatchProgress>> do_one(const Services& services, const KnownBucket& bucket,
                                        std::string name, api::ObjectBatch batch) {
  const cluster::ClusterState& state = *bucket.state;
  const auto* owner = cluster::owner_of(state.map, bucket.record->placement_name(name));
  if (owner == nullptr)
    co_return fail(Errc::unavailable, "no target of the cluster owns names now");
  batch.job = random_id(kLookIdLength);
  batch.bucket = raw(bucket.record->id);
  batch.bmd_version = state.bmd.version;
  batch.map_version = state.map.version;
  batch.names.push_back(name);
  const TargetJob order{std::string(kObjectJobPath), batch.job, json(batch).dump()};
  api::BatchProgress progress;
  const auto take = [&](const std::string& line) {
    return parse_batch_line(owner->id, line, progress);
  };
  CO_TRY_OK(co_await follow_lines(services, *owner, order, take, [] { return false; }));
  if (!progress.missing.empty())
    co_return fail(Errc::object_not_found, "object {}/{} does not exist",
                   bucket.record->name.display(), name);
  if (!progress.later.empty()) co_return fail(Errc::unavailable, "{}", progress.why_later);
  if (!progress.failed.empty()) co_return fail(Errc::io, "{}", progress.failed.front().second);
  if (!progress.counts.error.empty()) co_return fail(Errc::io, "{}", progress.counts.error);
  co_return progress;
}

/// Not so many that they keep other jobs from starting.
bool may_idle(const Services& services) {
  return services.jobs.driven().size() <= Jobs::kRunningMax / 2;
}

/// Deletes the objects that the goal of a copy has and its source has not. Each target asks the
/// source again before it deletes: objects may have been stored since the lists.
Task<Status> delete_others(const Services& services, const ObjectJob& copy) {
  ObjectJob job = copy;
  job.kind = api::kDeleteObjects;
  job.bucket = copy.to;
  job.to = BucketId{};
  job.what.to.reset();
  job.what.how.synchronize = false;
  job.unless_in = copy.bucket;
  job.upstream = api::has_upstream(*copy.what.to);
  ObjectRun run(services, job);
  run.leave_out(copy.bucket, copy.upstream);
  co_return co_await run.run();
}

}  // namespace

std::string order_of_objects(const json& value, BucketId bucket, BucketId to, bool synchronize) {
  return json{
      {"value", value}, {"bucket", raw(bucket)}, {"to", raw(to)}, {"synchronize", synchronize}}
      .dump();
}

Task<Result<bool>> has_to_fetch(const Services& services, const KnownBucket& bucket,
                                std::string name) {
  api::ObjectBatch batch;
  batch.fetches = true;
  batch.how.dry_run = true;
  const auto done = co_await do_one(services, bucket, name, std::move(batch));
  if (!done && done.error().code == Errc::object_not_found) co_return fail(done.error());
  co_return !done || done->counts.objects > 0;
}

Task<Status> delete_object(const Services& services, const KnownBucket& bucket, std::string name) {
  CO_TRY([[maybe_unused]] const api::BatchProgress done,
         co_await do_one(services, bucket, std::move(name), {}));
  co_return Status();
}

Task<Status> drive_object_job(const Services& services, Job record) {
  CO_TRY(const ObjectJob job, read_job(record));
  ObjectRun run(services, job);
  Status done = co_await run.run();
  if (done && job.what.how.synchronize) done = co_await delete_others(services, job);
  obs::log("proxy").info("{} {} job={} err={}", job.kind, done ? "done" : "failed", job.id,
                         done ? "" : done.error().message);
  if (done && job.what.to && may_idle(services)) {
    const bool in_peace = co_await run.stay_idle();
    if (!in_peace) co_return fail(Errc::cancelled, "told to stop");
  }
  co_return done;
}

}  // namespace tarn::proxy
