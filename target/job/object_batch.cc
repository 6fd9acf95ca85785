// A target's part in a job on many objects: the names of one batch, which the proxy that runs the
// job took for ours (docs/decisions/016). Each is deleted as a DELETE does or copied as a copy of a
// bucket does. Names that cannot be done now, such as one that has got another owner, go back to
// the proxy. It sends them again, to the owners that they have then.

#include "target/job/object_batch.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "common/api/multi_object.h"
#include "common/api/upstream_props.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/read_json.h"
#include "common/obs/log.h"
#include "target/coded/put_tombstone.h"
#include "target/commit/incoming.h"
#include "target/job/copy_named.h"
#include "target/node/job_stream.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

using nlohmann::json;

/// Names, and what JSON puts around and into them.
constexpr std::size_t kObjectBatchOrderBytesMax = 8U << 20U;

/// Deletes begin within this time after the batch came, by a clock that also counts while the
/// process stands still. A proxy takes a target that is silent for 20 s for gone: what it deleted
/// after that would belong to no job.
constexpr std::chrono::seconds kBeginDeletesFor{10};

/// Number of objects of one drive that are worked on at a time. Deletes of several names share the
/// syncs of an index; copies make the head of a rotational drive move between them.
std::size_t workers_of(const Drive* drive, bool copies) {
  const bool rotational = drive == nullptr || drive->kind() == io::DriveKind::rotational;
  if (copies) return rotational ? 1 : 4;
  return rotational ? 4 : 8;
}

/// One batch under way. All of it runs on the loop of its request, so nothing is locked.
class BatchRun {
 public:
  BatchRun(TargetNode& node, api::ObjectBatch batch, const asio::any_io_executor& executor)
      : node_(node),
        batch_(std::move(batch)),
        map_version_(node.view.state()->map.version),
        until_(node.clock.boot_time() + kBeginDeletesFor),
        lines_(executor, [this] { return line(); }),
        stop_(lines_.stop().get_token()) {}

  [[nodiscard]] JobLines& lines() { return lines_; }
  Task<Status> run();

 private:
  /// Names that wait for the same workers.
  struct Queue {
    std::vector<std::uint32_t> names;
    std::size_t workers = 1;
  };
  [[nodiscard]] std::vector<Queue> queues() const;
  Task<Status> work_off(Queue queue);
  Task<Status> take(std::uint32_t index);
  Task<Status> handle(std::uint32_t index);
  Task<Status> count(const std::string& name);
  Task<Status> copy(const std::string& name);
  Task<Status> fetch(const std::string& name);
  Task<Status> erase(std::uint32_t index);
  Task<Status> check_absent(const std::string& name);
  void note(std::uint32_t index, const Error& error);
  [[nodiscard]] std::string line() const;

  TargetNode& node_;
  const api::ObjectBatch batch_;
  const std::uint64_t map_version_;
  const BootTime until_;
  api::BatchProgress progress_;
  JobLines lines_;
  std::stop_token stop_;
  bool broken_ = false;  // no further name is begun
};

Task<Status> BatchRun::run() {
  std::vector<Task<Status>> all;
  for (Queue& queue : queues()) all.push_back(work_off(std::move(queue)));
  const auto ends = co_await gather(std::move(all));
  for (const Status& end : ends)
    if (!end) progress_.counts.error = end.error().message;
  progress_.counts.done = true;
  progress_.map_version = node_.view.state()->map.version;
  lines_.end();
  obs::log("target").debug(
      "batch ended job={} names={} objects={} missing={} later={} failed={} why={} "
      "err={}",
      batch_.job, batch_.names.size(), progress_.counts.objects, progress_.missing.size(),
      progress_.later.size(), progress_.failed.size(), progress_.why_later, progress_.counts.error);
  co_return Status();
}

/// One for each drive, so that a slow one holds up its own names only; one for all when the client
/// sets how many are worked on at a time.
std::vector<BatchRun::Queue> BatchRun::queues() const {
  std::map<const Drive*, Queue> by_drive;
  const auto state = node_.view.state();
  const auto* bucket = state->bmd.find(BucketId(batch_.bucket));
  for (std::uint32_t i = 0; i < batch_.names.size(); ++i) {
    const Drive* drive = nullptr;
    if (batch_.how.workers == 0 && bucket != nullptr)
      drive = node_.store.drive_for(name_in(*bucket, batch_.names[i]));
    Queue& queue = by_drive[drive];
    queue.names.push_back(i);
    queue.workers = workers_of(drive, batch_.copies);
    if (batch_.how.workers != 0)
      queue.workers = static_cast<std::size_t>(std::max<std::int64_t>(batch_.how.workers, 1));
  }
  std::vector<Queue> out;
  out.reserve(by_drive.size());
  for (auto& [drive, queue] : by_drive) out.push_back(std::move(queue));
  return out;
}

Task<Status> BatchRun::work_off(Queue queue) {
  const auto take_next = [&](std::size_t i) { return take(queue.names[i]); };
  co_return co_await gather_at_most(queue.workers, queue.names.size(), take_next);
}

Task<Status> BatchRun::take(std::uint32_t index) {
  if (broken_) co_return Status();
  Status done = fail(Errc::cancelled, "told to stop");
  if (!stop_.stop_requested()) done = co_await handle(index);
  if (done) co_return Status();
  const Errc code = done.error().code;
  if (code == Errc::bucket_not_found || code == Errc::cancelled) {
    broken_ = true;
    co_return done;
  }
  note(index, done.error());
  co_return Status();
}

void BatchRun::note(std::uint32_t index, const Error& error) {
  switch (error.code) {
    case Errc::object_not_found: progress_.missing.push_back(index); return;
    case Errc::unavailable:
    case Errc::timeout:
    case Errc::disconnected:
      progress_.later.push_back(index);
      progress_.why_later = error.message;
      return;
    default: break;
  }
  progress_.failed.emplace_back(index, error.message);
  if (!batch_.how.continue_on_error) broken_ = true;
}

Task<Status> BatchRun::handle(std::uint32_t index) {
  if (node_.view.state()->map.version != map_version_)
    co_return fail(Errc::unavailable, "the cluster map has changed");
  if (!batch_.copies && !batch_.fetches && node_.clock.boot_time() > until_)
    co_return fail(Errc::unavailable, "the batch takes too long");
  CO_FAIL_POINT("batch.object");
  const std::string& name = batch_.names[index];
  if (batch_.how.dry_run) co_return co_await count(name);
  if (batch_.copies) co_return co_await copy(name);
  if (batch_.fetches) co_return co_await fetch(name);
  co_return co_await erase(index);
}

Task<Status> BatchRun::count(const std::string& name) {
  if (batch_.copies) CO_TRY_OK(api::check_object_name(batch_.how.name_of_copy(name)));
  CO_TRY(const ObjectRequest wanted, co_await find_own(node_, BucketId(batch_.bucket), name));
  CO_TRY(const Newest newest, co_await find_complete(node_, wanted));
  if (batch_.fetches && newest.exists()) co_return Status();  // there would be no work
  if (newest.exists()) {
    progress_.counts.add(newest.record->size);
    co_return Status();
  }
  // An eviction concerns the cluster alone.
  const bool concerns_upstream = batch_.fetches || batch_.copies || batch_.upstream;
  if (!concerns_upstream || !api::has_upstream(wanted.bucket.name))
    co_return fail(object_missing(wanted));
  CO_TRY(const std::uint64_t bytes, co_await node_.cold->size(wanted));
  progress_.counts.add(bytes);
  co_return Status();
}

Task<Status> BatchRun::copy(const std::string& name) {
  CO_TRY(const auto copied,
         co_await copy_named(node_, batch_.job, BucketId(batch_.bucket), BucketId(batch_.to), name,
                             batch_.how, batch_.again, stop_));
  if (!copied) co_return fail(Errc::object_not_found, "object {} does not exist", name);
  progress_.counts.add(copied->bytes, copied->owner == node_.id ? "" : copied->owner);
  co_return Status();
}

Task<Status> BatchRun::fetch(const std::string& name) {
  CO_TRY(const ObjectRequest wanted, co_await find_own(node_, BucketId(batch_.bucket), name));
  CO_TRY(const Newest newest, co_await find_complete(node_, wanted));
  if (newest.exists()) {
    if (!batch_.how.latest) co_return Status();  // is here, and is not counted
    CO_TRY(const bool current, co_await node_.cold->confirm(wanted, *newest.record));
    if (current) co_return Status();
  }
  CO_TRY(const std::uint64_t bytes, co_await node_.cold->fetch(wanted, stop_));
  progress_.counts.add(bytes);
  co_return Status();
}

/// Deletes as a DELETE does (delete.cc).
Task<Status> BatchRun::erase(std::uint32_t index) {
  CO_TRY(const ObjectRequest wanted,
         co_await find_own(node_, BucketId(batch_.bucket), batch_.names[index]));
  if (batch_.unless_in != 0 && SAFETY("safety.delete_asks_source"))
    CO_TRY_OK(co_await check_absent(wanted.name.object));
  CO_TRY_OK(node_.store.reachable(wanted.name));
  // Without the lock: what other replicas hold pending is sent to this node as well.
  if (replica_count_of(node_, wanted.name.bucket).many())
    CO_TRY_OK(co_await find_complete(node_, wanted));
  // Not waited for here: all that wait come again together, and the other names need not wait for
  // them.
  OwnedNames::Write write;
  if (node_.owned.begin(wanted.name.uname, write) != OwnedNames::Verdict::yes)
    co_return fail(Errc::unavailable, "{} is being handed over; try again", wanted.display());
  if (batch_.upstream) {
    const auto removed = co_await node_.upstream_writes->remove(wanted, write, nullptr);
    Status done = removed ? check_lease_before_reply(write) : fail(removed.error());
    if (done) progress_.counts.add(*removed);
    if (!done && done.error().code == Errc::unavailable) progress_.unsure.push_back(index);
    co_return done;
  }
  const auto held = co_await node_.store.locks().acquire(wanted.name.key());
  CO_TRY(Newest newest, co_await find_newest(node_, wanted));
  if (!newest.exists()) co_return fail(object_missing(wanted));
  Status done = co_await delete_present(node_, wanted, std::move(newest.here), write);
  if (done) done = check_lease_before_reply(write);
  if (done) progress_.counts.add(newest.record->size);
  if (!done) progress_.unsure.push_back(index);
  co_return done;
}

/// object_not_found, so that it is left, when the other bucket has an object of this name.
Task<Status> BatchRun::check_absent(const std::string& name) {
  CO_TRY(const Destination other, co_await find_in_bucket(node_, BucketId(batch_.unless_in), name));
  CO_TRY(const bool there, co_await is_there(node_, batch_.job, other));
  if (!there) co_return Status();
  co_return fail(Errc::object_not_found, "{} is there", other.object.display());
}

/// Error texts may have parts of anything.
std::string BatchRun::line() const {
  return json(progress_).dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<api::ObjectBatch> object_batch_parse_order(const std::string& body) {
  TRY(auto batch, parse_json<api::ObjectBatch>(body, Errc::invalid_argument, "order of a batch"));
  if (batch.names.size() <= api::ObjectBatch::kNamesMax) return batch;
  return fail(Errc::invalid_argument, "a batch of {} names: at most {}", batch.names.size(),
              api::ObjectBatch::kNamesMax);
}

}  // namespace

Task<Status> take_batch(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kObjectBatchOrderBytesMax));
  CO_TRY(api::ObjectBatch batch, object_batch_parse_order(body));
  CO_TRY_OK(co_await node.view.at_least(batch.map_version, batch.bmd_version));
  std::string id = batch.job;
  BatchRun run(node, std::move(batch), co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, std::move(id), run);
}

}  // namespace tarn::target
