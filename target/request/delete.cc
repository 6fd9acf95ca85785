// Steps of a DELETE at the target: under the name's lock, tombstone and unlink every file of the
// name, durably (drive_write.cc), then acknowledge.

#include "common/api/action.h"
#include "common/api/upstream_props.h"
#include "common/obs/log.h"
#include "target/coded/put_tombstone.h"
#include "target/commit/incoming.h"
#include "target/drive/record_fields.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/request/admission.h"
#include "target/request/handlers.h"
#include "target/request/redirect_to_owner.h"

namespace tarn::target {
namespace {

/// AIStore's clients may state with a body what a DELETE shall be. True for an object that goes
/// here alone, and stays upstream.
Task<Result<bool>> is_eviction(http::Request& request, const ObjectRequest& wanted) {
  CO_TRY_OK(check_announced_length(request.head(), *wanted.claim));
  CO_TRY(const std::string body, co_await request.exchange.read_all(api::Action::kBytesMax));
  CO_TRY(const api::Action asked, api::parse_action(body));
  const bool has_upstream = api::has_upstream(wanted.bucket.name);
  const bool evicts = asked.action == "evict-listrange" || asked.action == "evict-remote-bck";
  if (asked.action.empty() || (evicts && has_upstream)) co_return evicts;
  if (evicts)
    co_return fail(Errc::invalid_argument,
                   "{} is for objects of an upstream bucket, which can be fetched again; {} would "
                   "be lost: delete it by a DELETE without body",
                   asked.action, wanted.display());
  if (asked.action == "mpt-abort")
    co_return fail(Errc::unsupported, "mpt-abort: multipart uploads belong to later work");
  co_return fail(Errc::invalid_argument, "DELETE of an object does not know the action '{}'",
                 asked.action);
}

}  // namespace

Task<Status> delete_object(TargetNode& node, http::Request& request) {
  CO_TRY(const ObjectRequest wanted, co_await admit_write(node, request));
  if (wanted.elsewhere != nullptr) co_return co_await redirect_to_owner(node, request, wanted);
  CO_TRY(const bool evicts, co_await is_eviction(request, wanted));
  if (api::has_upstream(wanted.bucket.name) && !evicts) {
    CO_TRY([[maybe_unused]] const std::uint64_t bytes,
           co_await node.upstream_writes->remove(wanted, wanted.write, &request.head()));
    CO_TRY_OK(check_lease_before_reply(wanted.write));
    co_return co_await request.exchange.respond(http::Response(200));
  }
  // Without the lock: what other replicas hold pending is sent to this node as well.
  if (replica_count_of(node, wanted.name.bucket).many())
    CO_TRY_OK(co_await find_complete(node, wanted));
  const auto held = co_await node.store.locks().acquire(wanted.name.key());
  CO_TRY(Newest newest, co_await find_newest(node, wanted));
  if (!newest.exists()) co_return fail(object_missing(wanted));
  if (http::check_write_conditions(request.head(), newest.record->etag(),
                                   modified_seconds(*newest.record)) != http::Condition::proceed)
    co_return fail(Errc::precondition_failed, "{} is now {}", wanted.display(),
                   newest.record->etag());
  // Copies elsewhere are older than the tombstone, and go when they are offered to us.
  CO_TRY_OK(co_await delete_present(node, wanted, std::move(newest.here), wanted.write));
  CO_TRY_OK(check_lease_before_reply(wanted.write));
  obs::log("target").debug("delete done req={} bucket={} object={}", request.exchange.request_id(),
                           wanted.bucket.name.name, wanted.name.object);
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace tarn::target
