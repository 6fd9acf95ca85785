// What happens on a DELETE at the target: under the name's lock, tombstone and unlink every file of
// the name, durably (drive.cc), then acknowledge.

#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/node.h"

namespace tarn::target {

Task<Status> delete_object(TargetNode& node, http::Request& request) {
  CO_TRY(const ObjectRequest wanted, co_await admit_write(node, request));
  const auto held = co_await node.store.locks().acquire(wanted.name.uname);
  CO_TRY(auto present, co_await node.store.find_all(wanted.name));
  if (present.empty() || present.front().record.kind == io::ObjectRecord::Kind::tombstone) {
    if (!node.store.missing().empty())
      co_return fail(Errc::unavailable, "object {} is not here, but drive {} is away",
                     wanted.name.object, node.store.missing().begin()->first);
    co_return fail(Errc::object_not_found, "{}/{} does not exist", wanted.bucket.name.display(),
                   wanted.name.object);
  }
  if (http::check_write_conditions(request.head(), present.front().record.etag()) !=
      http::Condition::proceed)
    co_return fail(Errc::precondition_failed, "{}/{} is now {}", wanted.bucket.name.display(),
                   wanted.name.object, present.front().record.etag());
  io::ObjectRecord tombstone;
  tombstone.kind = io::ObjectRecord::Kind::tombstone;
  tombstone.generation = node.next_generation(*node.view.state());
  tombstone.modified_ns = node.clock.wall_time().count();
  CO_TRY_OK(co_await node.store.remove(wanted.name, std::move(present), tombstone));
  if (SAFETY("safety.lease_before_reply") && !node.membership.lease().valid())
    co_return fail(Errc::unavailable, "the lease ended during the commit: the outcome is unknown");
  obs::log("target").debug("delete done req={} bucket={} object={}", request.exchange.request_id(),
                           wanted.bucket.name.name, wanted.name.object);
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace tarn::target
