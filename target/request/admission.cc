#include "target/request/admission.h"

#include "common/api/object_query.h"
#include "common/api/upstream_props.h"
#include "common/cluster/state/bucket_changes.h"
#include "common/cluster/state/state.h"
#include "common/http/message.h"
#include "target/replica/away_drive.h"
#include "target/replica/node_copies.h"
#include "target/request/redirect_to_owner.h"

namespace tarn::target {
namespace {

/// Bucket and object of "/v1/objects/<bucket>/<object>", checked as words.
Status take_name(const http::Request& request, ObjectRequest& out) {
  if (request.parts.size() < 2 || request.parts[1].empty())
    return fail(Errc::invalid_argument, "the path names no object: /v1/objects/<bucket>/<object>");
  TRY(out.bucket.name, api::bucket_from(request.parts[0], request.query()));
  TRY_OK(api::check_bucket_name(out.bucket.name.name));
  TRY_OK(api::check_object_name(request.parts[1]));
  TRY_OK(api::check_object_query(request.query()));
  out.name.object = request.parts[1];
  return {};
}

/// Bucket and owner by what `out.state` knows. False: it knows no such bucket.
Result<bool> take_place(const TargetNode& node, ObjectRequest& out) {
  const auto* bucket = out.state->bmd.find(out.bucket.name);
  if (bucket == nullptr) return false;
  if (bucket->ending) return fail(cluster::being_destroyed(bucket->name));
  out.bucket = *bucket;
  out.name = name_in(*bucket, std::move(out.name.object));
  const auto* owner = cluster::owner_of(out.state->map, out.name.uname);
  if (owner == nullptr) return fail(Errc::unavailable, "no target of the cluster owns names now");
  out.elsewhere = owner->id == node.id ? nullptr : owner;
  return true;
}

/// False: what the node knows of the cluster is not enough, catch_up() is needed.
Result<bool> admit_now(TargetNode& node, http::Request& request, ObjectRequest& out) {
  TRY_OK(take_name(request, out));
  TRY(out.claim, node.signer.verify(request.head().method_text, node.id,
                                    out.bucket.name.uname(out.name.object), request.query()));
  out.state = node.view.state();
  out.from_owner = out.claim && request.query().get(kFromOwner) == "1";
  if (out.claim) {
    if (!out.claim->request_id.empty()) request.exchange.set_request_id(out.claim->request_id);
    const bool is_get = request.head().method == http::Method::get;
    if (is_get && out.claim->length == security::kRelayedLength) request.exchange.allow_pauses();
    const bool is_behind = out.state->map.version < out.claim->map_version ||
                           out.state->bmd.version < out.claim->bmd_version;
    if (is_behind) return false;
  }
  return take_place(node, out);
}

/// A replica of a name with copies on nodes answers readers as its owner does (docs/decisions/014).
void read_at_replica(const TargetNode& node, ObjectRequest& out) {
  if (out.elsewhere == nullptr) return;
  const cluster::ReplicaCount count = out.bucket.replica_count();
  if (count.many() && is_replica(node, *out.state, out.name.uname, count)) out.elsewhere = nullptr;
}

/// Does what admit_now() could not do without asking the meta store.
Task<Status> admission_catch_up(TargetNode& node, ObjectRequest& out) {
  if (out.claim) {
    // The proxy acted on a newer map or a newer bucket than we know: catch up before acting.
    auto newer = co_await node.view.at_least(out.claim->map_version, out.claim->bmd_version);
    if (!newer) co_return fail(Errc::unavailable, "catching up: {}", newer.error().message);
    out.state = *newer;
    CO_TRY(const bool known, take_place(node, out));
    if (known) co_return Status();
  }
  // Reads the store before a node answers that a bucket does not exist.
  const auto fresh = co_await node.view.fresh();
  if (!fresh)
    co_return fail(Errc::unavailable, "bucket {} is unknown here and the meta store is away",
                   out.bucket.name.display());
  out.state = *fresh;
  CO_TRY(const bool known, take_place(node, out));
  if (!known)
    co_return fail(Errc::bucket_not_found, "bucket \"{}\" does not exist",
                   out.bucket.name.display());
  co_return Status();
}

/// Success if the object may be read here and now.
Status check_freshness(const TargetNode& node, const http::Request& request, ObjectRequest& out) {
  if (node.membership.lease().valid()) return {};
  if (http::asks_for_fresh(request.head()))
    return fail(Errc::unavailable, "this target has no lease now: its data may be stale");
  out.stale_seconds = node.membership.lease().stale_seconds();
  return {};
}

}  // namespace

Result<bool> admit_read_now(TargetNode& node, http::Request& request, ObjectRequest& out) {
  TRY(const bool admitted, admit_now(node, request, out));
  if (!admitted) return false;
  read_at_replica(node, out);
  TRY_OK(check_freshness(node, request, out));
  return true;
}

Task<Status> admit_read_later(TargetNode& node, http::Request& request, ObjectRequest& out) {
  CO_TRY_OK(co_await admission_catch_up(node, out));
  read_at_replica(node, out);
  co_return check_freshness(node, request, out);
}

Task<Result<ObjectRequest>> admit_read(TargetNode& node, http::Request& request) {
  ObjectRequest wanted;
  CO_TRY(const bool admitted, admit_read_now(node, request, wanted));
  if (!admitted) CO_TRY_OK(co_await admit_read_later(node, request, wanted));
  co_return std::move(wanted);
}

Task<Result<ObjectRequest>> admit_write(TargetNode& node, http::Request& request) {
  ObjectRequest wanted;
  CO_TRY(const bool admitted, admit_now(node, request, wanted));
  if (!admitted) CO_TRY_OK(co_await admission_catch_up(node, wanted));
  if (!wanted.claim)
    co_return fail(Errc::invalid_argument,
                   "a target takes {} only as a proxy redirects it: send it to a proxy and follow "
                   "the redirect (curl -L)",
                   request.head().method_text);
  if (wanted.elsewhere != nullptr) co_return std::move(wanted);
  // Before its lock: that may be held by a write which a drive that hangs has in hand.
  CO_TRY_OK(takes_writes(node, wanted.name));
  CO_TRY_OK(co_await wait_for_turn(node, wanted.name.uname, wanted.write));
  if (!wanted.write) {  // the map has changed meanwhile
    wanted.state = node.view.state();
    CO_TRY(const bool known, take_place(node, wanted));
    if (!known || wanted.elsewhere == nullptr)
      co_return fail(Errc::unavailable, "{} has just got another owner; try again",
                     wanted.display());
  }
  co_return std::move(wanted);
}

Status readiness(const TargetNode& node) {
  if (node.membership.dismissed())
    return fail(Errc::unavailable, "this target was taken out of the cluster");
  if (!node.membership.lease().valid())
    return fail(Errc::unavailable, "no lease: the meta store cannot be reached");
  for (const auto& drive : node.store.drives())
    if (!drive->disabled() && drive->usable()) return {};
  return fail(Errc::unavailable, "no drive is usable");
}

}  // namespace tarn::target
