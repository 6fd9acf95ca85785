#include "target/replica/bring_forward.h"

#include "common/base/fail_point.h"
#include "target/replica/fetch_to_owner.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/replica/recommit.h"

namespace tarn::target {
namespace {

/// At the owner. Something newer elsewhere is brought here, and goes the same way then.
Task<Status> commit_pending(TargetNode& node, const ObjectRequest& wanted) {
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node, wanted.name.uname));
  Newest newest;
  {
    const auto held = co_await node.store.locks().acquire(wanted.name.key());
    // Other targets report what they have as it is: a target with something pending waits for us.
    CO_TRY(newest, co_await find_newest(node, wanted, Pending::show));
    if (newest.holder == nullptr) {
      if (!newest.record || pending_by(*newest.record).empty()) co_return Status();
      CO_TRY(const Generation generation,
             generation_above(node, wanted, write, newest.here.front().record));
      co_return co_await recommit(node, wanted, write, std::move(newest.here), generation);
    }
  }
  co_return co_await fetch_from(node, wanted.name, *newest.holder, newest.state->map.version,
                                newest.record->file_bytes());
}

/// Sends what is here to another target, with the bytes of its file.
Task<Status> give_here(TargetNode& node, const ObjectRequest& wanted, const Located& here,
                       const std::string& to) {
  VersionInFlight outbound;
  outbound.attribute = {wanted.name.bucket, wanted.bucket.placed_as(), wanted.name.object,
                        here.record};
  std::shared_ptr<OpenObject> object;
  if (here.record.kind == io::ObjectRecord::Kind::object) {
    CO_TRY(object, co_await here.drive->open_object(wanted.name.bucket, wanted.name.object));
    if (!object || object->record().generation != here.record.generation)
      co_return fail(Errc::unavailable, "object {} is being changed", wanted.name.object);
  }
  outbound.object = object.get();
  co_return co_await give_pending(node, std::move(outbound), to);
}

/// Sends it to an owner that is elsewhere, which commits it as its own.
Task<Status> hand_to_owner(TargetNode& node, const ObjectRequest& wanted, const Located& here,
                           std::string owner) {
  CO_TRY_OK(co_await give_here(node, wanted, here, owner));
  CO_FAIL_POINT("coded.handed_to_owner");
  // A replica that is asked so resolves what it has first.
  CO_TRY(const ReplicaAnswer answer,
         co_await ask_replica(node, wanted.state, wanted.name, owner, Look::complete));
  const Generation ours = here.record.generation;
  if (!answer.record || answer.record->generation < ours)
    co_return fail(Errc::unavailable, "target t[{}] does not go on with the newest version of {}",
                   owner, wanted.name.object);
  if (answer.record->generation == ours) co_return co_await all_have(node, wanted.name, ours);
  co_return co_await fetch_newer(node, wanted.name, std::move(owner));
}

}  // namespace

Task<Status> bring_forward(TargetNode& node, ObjectName name, Located here) {
  CO_TRY(const ObjectRequest wanted, request_of(node, std::move(name)));
  const auto digest = cluster::placement_digest(wanted.name.uname);
  std::string owner(cluster::writer_of(*wanted.state->ownership->map, digest));
  if (owner == node.id) co_return co_await commit_pending(node, wanted);
  if (owner.empty()) co_return fail(Errc::unavailable, "no target owns {}", wanted.name.uname);
  co_return co_await hand_to_owner(node, wanted, here, std::move(owner));
}

Task<Status> fetch_newer(TargetNode& node, ObjectName name, std::string writer) {
  const auto state = node.view.state();
  const cluster::Node* other = state->map.find(writer);
  if (other == nullptr) co_return fail(Errc::unavailable, "target t[{}] is not in the map", writer);
  co_return co_await fetch_from(node, name, *other, state->map.version, 0);
}

}  // namespace tarn::target
