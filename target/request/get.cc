// Steps of a GET at the target: find the record and open its file on the drive's threads, answer
// conditions and ranges from the record, then send the bytes (sender.cc): from memory by sendfile
// on the event loop, where the drive's threads have brought and verified them.

#include <algorithm>
#include <set>

#include "common/api/upstream_props.h"
#include "common/base/encoding.h"
#include "common/obs/log.h"
#include "target/commit/incoming.h"
#include "target/node/in_time.h"
#include "target/node/sender.h"
#include "target/replica/away_drive.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/request/admission.h"
#include "target/request/get_coded.h"
#include "target/request/handlers.h"
#include "target/request/object_fields.h"
#include "target/request/redirect_to_owner.h"

namespace tarn::target {
namespace {

using http::ByteRange;

/// The other copies of a mirrored object.
class CopiesOnOtherDrives final : public OtherCopies {
 public:
  CopiesOnOtherDrives(ObjectStore& store, const ObjectName& name) : store_(store), name_(name) {}

  Task<std::shared_ptr<OpenObject>> instead_of(std::shared_ptr<OpenObject> failed,
                                               Error why) override {
    failed_.insert(&failed->drive());
    if (why.code == Errc::corrupt || why.code == Errc::io)
      store_.mirror().report_bad(name_, failed->drive());
    const Generation generation = failed->record().generation;
    auto found = co_await store_.mirror().open(name_, failed_, &generation);
    std::shared_ptr<OpenObject> other;
    if (found && *found && (*found)->file_bytes() == failed->file_bytes())
      other = std::move(*found);
    obs::log("target").warn("copy given up by a reader object={} drive={} err={} goes_on={}",
                            name_.object, failed->drive().path(), why.message,
                            other ? other->drive().path() : "nowhere");
    co_return other;
  }

 private:
  ObjectStore& store_;
  const ObjectName& name_;
  std::set<const Drive*> failed_;
};

/// An object that is replaced while it is read is begun anew so often.
constexpr int kGetAttemptsMax = 4;
/// Time that a reader waits for a drive before another replica of the object is tried
/// (docs/reliability.md C11).
constexpr std::chrono::seconds kGetPatience{1};

Task<Status> send_object(TargetNode& node, http::Request& request, const ObjectRequest& wanted,
                         const std::shared_ptr<OpenObject>& object, bool& overtaken) {
  const io::ObjectRecord& record = object->record();
  RangeAnswer chosen = choose_range(request, wanted, record);
  if (chosen.refused) co_return co_await request.exchange.respond(std::move(chosen.response));
  const ByteRange range = chosen.range;
  http::Response response = std::move(chosen.response);
  response.lines = object->field_lines();
  if (wanted.stale_seconds > 0) response.set("Tarn-Stale", std::to_string(wanted.stale_seconds));
  if (record.coding)
    co_return co_await send_coded(node, request.exchange, wanted, record, range,
                                  std::move(response), overtaken);
  CopiesOnOtherDrives others(node.store, wanted.name);
  Sender sender(request.exchange, object, range, node.verify_always,
                wanted.name.copies > 0 ? &others : nullptr);
  CO_TRY_OK(co_await sender.begin(std::move(response)));
  if (!sender.done()) CO_TRY_OK(co_await sender.send());
  co_return co_await request.exchange.finish();
}

/// Adds the object's name to the error that it is not what was stored.
Status named(Status result, const ObjectRequest& wanted) {
  if (result || result.error().code != Errc::corrupt) return result;
  return fail(Errc::corrupt, "{}: {}", wanted.display(), result.error().message);
}

/// Reports a file that cannot be read as it was stored: it is repaired from other targets, or
/// counted as lost.
void report_bad(TargetNode& node, const ObjectRequest& wanted, const Drive* drive,
                const Error& why) {
  if (why.code != Errc::corrupt && why.code != Errc::io) return;
  if (wanted.name.copies == 0 && drive != nullptr)
    node.store.mirror().report_bad(wanted.name, *drive);
}

Task<Result<std::shared_ptr<OpenObject>>> open_by_itself(TargetNode& node, ObjectName name) {
  co_return co_await open_complete(node, name);
}

/// True if another replica should send the object, since its drive here is slow: the bytes of a
/// coded one whose record is open come from slices, and copies on drives have siblings here.
bool is_slow_here(const TargetNode& node, const ObjectRequest& wanted, const OpenObject* object) {
  if (wanted.name.copies > 0) return false;
  if (object != nullptr) return !object->record().coding && object->drive().is_slow();
  const Drive* drive = node.store.drive_for(wanted.name);
  return drive != nullptr && drive->is_slow();
}

/// A version is not shown before all replicas are known to have it (docs/decisions/014). timeout
/// where the drive makes a reader wait whom `other`, if there is one, can serve.
Task<Result<std::shared_ptr<OpenObject>>> open_wanted(TargetNode& node, const ObjectRequest& wanted,
                                                      const cluster::Node* other) {
  auto opening = open_by_itself(node, wanted.name);
  auto object = other == nullptr ? co_await std::move(opening)
                                 : co_await in_time(node, std::move(opening), kGetPatience);
  if (!object) co_return fail(named(fail(object.error()), wanted).error());
  co_return object;
}

/// True if we have ourselves all that earlier replicas of the name may have had.
bool had_it_always(const TargetNode& node, const ObjectRequest& wanted, const OpenObject* object) {
  const std::uint64_t found = object == nullptr ? 0 : object->record().generation.map_version;
  const auto digest = cluster::placement_digest(wanted.name.uname);
  return cluster::readers_of(*wanted.state->ownership->map, node.id, digest,
                             replica_count_of(node, wanted.name.bucket), found)
      .empty();
}

/// True if upstream has what the cluster may have, but cannot read now.
bool can_pass_through(const ObjectRequest& wanted, const Error& why) {
  return api::has_upstream(wanted.bucket.name) && why.code != Errc::cancelled &&
         why.code != Errc::bucket_not_found;
}

/// The holder of the newest version, when that is another target; else `object` is what there is.
Task<Result<const cluster::Node*>> look_around(TargetNode& node, ObjectRequest& wanted,
                                               std::shared_ptr<OpenObject>& object) {
  CO_TRY(const Newest newest, co_await find_complete(node, wanted));
  wanted.state = newest.state;
  object = nullptr;
  if (!newest.exists()) co_return nullptr;
  if (newest.holder != nullptr) co_return newest.holder;
  CO_TRY(object, co_await open_wanted(node, wanted, nullptr));
  co_return nullptr;
}

bool is_owner(const TargetNode& node, const ObjectRequest& wanted) {
  const auto* owner = cluster::owner_of(wanted.state->map, wanted.name.uname);
  return owner != nullptr && owner->id == node.id;
}

/// `overtaken`: the object has come meanwhile.
Task<Status> get_cold(TargetNode& node, http::Request& request, const ObjectRequest& wanted,
                      bool& overtaken) {
  // Without a lease the name may have another owner, and nothing is stored. At another replica the
  // owner does not answer.
  if (wanted.stale_seconds > 0 || !is_owner(node, wanted))
    co_return co_await node.cold->pass_through(request, wanted);
  auto done = co_await node.cold->get(request, wanted);
  overtaken = !done && done.error().code == Errc::conflict && !request.exchange.response_started();
  co_return done;
}

/// Notes a read for the order of eviction. Objects without an upstream are never evicted.
void note_read(const TargetNode& node, const ObjectRequest& wanted, const OpenObject& object) {
  if (api::has_upstream(wanted.bucket.name))
    object.drive().access_times().note(wanted.name.bucket, wanted.name.object,
                                       node.clock.wall_time());
}

/// `overtaken` as send_coded().
Task<Status> get_once(TargetNode& node, http::Request& request, bool& overtaken) {
  ObjectRequest wanted;
  CO_TRY(const bool admitted, admit_read_now(node, request, wanted));
  if (!admitted) CO_TRY_OK(co_await admit_read_later(node, request, wanted));
  if (wanted.elsewhere != nullptr && !wanted.from_owner)
    co_return co_await redirect_to_owner(node, request, wanted);
  auto object = node.store.find_open(wanted.name);
  if (object && !pending_by(object->record()).empty()) object = nullptr;
  if (is_slow_here(node, wanted, object.get())) {
    const auto* other = co_await answering_replica(node, request, wanted);
    if (other != nullptr) co_return co_await send_to_faster(node, request, wanted, *other);
  }
  if (!object) {
    auto opened = co_await open_wanted(node, wanted, next_replica(node, request, wanted));
    if (!opened) {
      report_bad(node, wanted, node.store.drive_for(wanted.name), opened.error());
      const auto* other = co_await answering_replica(node, request, wanted);
      if (other != nullptr) co_return co_await redirect_to_holder(node, request, wanted, *other);
      if (can_pass_through(wanted, opened.error()))
        co_return co_await node.cold->pass_through(request, wanted);
      // No other replica serves it: the drive is waited for.
      if (opened.error().code == Errc::timeout)
        opened = co_await open_wanted(node, wanted, nullptr);
      if (!opened) co_return fail(opened.error());
    }
    object = std::move(*opened);
  }
  if (wanted.elsewhere != nullptr) {  // no longer ours; the owner has found it here
    if (!object) co_return co_await redirect_to_owner(node, request, wanted);
  } else if (!is_newest(*wanted.state, object.get()) &&
             !had_it_always(node, wanted, object.get())) {
    const auto holder = co_await look_around(node, wanted, object);
    const cluster::Node* other = nullptr;
    if (holder)
      other = *holder;
    else  // the other one may know it all by itself
      other = co_await answering_replica(node, request, wanted);
    if (other != nullptr) co_return co_await redirect_to_holder(node, request, wanted, *other);
    if (!holder && can_pass_through(wanted, holder.error()))
      co_return co_await node.cold->pass_through(request, wanted);
    if (!holder) co_return fail(holder.error());
  }
  if (!object && api::has_upstream(wanted.bucket.name))
    co_return co_await get_cold(node, request, wanted, overtaken);
  if (!object) co_return fail(object_missing(wanted));
  if (wants_confirmed(node.cold, wanted, object->record(), request)) {
    CO_TRY(const bool current, co_await node.cold->confirm(wanted, object->record()));
    if (!current) co_return co_await get_cold(node, request, wanted, overtaken);
  }
  note_read(node, wanted, *object);
  CO_TRY(auto unchanged, judge_conditions(request.head(), wanted, object->record()));
  if (unchanged) co_return co_await request.exchange.respond(std::move(*unchanged));
  auto sent = co_await send_object(node, request, wanted, object, overtaken);
  if (overtaken) co_return sent;
  // The drive has an empty file of a coded object, and is not to blame.
  if (!sent && !object->record().coding) report_bad(node, wanted, &object->drive(), sent.error());
  if (!sent && !request.exchange.response_started()) {  // the drive failed before the first byte
    const auto* other = co_await answering_replica(node, request, wanted);
    if (other != nullptr) co_return co_await redirect_to_holder(node, request, wanted, *other);
  }
  if (!sent && !request.exchange.response_started() && can_pass_through(wanted, sent.error()))
    co_return co_await node.cold->pass_through(request, wanted);
  co_return named(std::move(sent), wanted);
}

}  // namespace

Task<Status> get_object(TargetNode& node, http::Request& request) {
  for (int attempt = 1;; ++attempt) {
    bool overtaken = false;
    auto done = co_await get_once(node, request, overtaken);
    if (!overtaken || attempt == kGetAttemptsMax) co_return done;
  }
}

}  // namespace tarn::target
