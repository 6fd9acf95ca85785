#include "common/api/mirror_props.h"
#include "common/api/object_query.h"
#include "common/cluster/state.h"
#include "common/http/message.h"
#include "target/node.h"

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
  out.bucket = *bucket;
  out.name = name_in(*bucket, std::move(out.name.object));
  const auto* owner = cluster::owner_of(out.state->map, out.name.uname);
  if (owner == nullptr || owner->id != node.id)
    return fail(Errc::unavailable, "object {} belongs to target {}, this is {}: ask a proxy",
                out.name.object, owner == nullptr ? "nobody" : owner->id, node.id);
  return true;
}

/// False: what the node knows of the cluster is not enough, catch_up() is needed.
Result<bool> admit_now(TargetNode& node, http::Request& request, ObjectRequest& out) {
  TRY_OK(take_name(request, out));
  TRY(out.claim, node.signer.verify(request.head().method_text, node.id,
                                    out.bucket.name.uname(out.name.object), request.query()));
  out.state = node.view.state();
  if (out.claim) {
    if (!out.claim->request_id.empty()) request.exchange.set_request_id(out.claim->request_id);
    const bool is_behind = out.state->map.version < out.claim->map_version ||
                           out.state->bmd.version < out.claim->bmd_version;
    if (is_behind) return false;
  }
  return take_place(node, out);
}

/// What admit_now() could not do without asking the meta store.
Task<Status> catch_up(TargetNode& node, ObjectRequest& out) {
  if (out.claim) {
    // The proxy acted on a newer map or a newer bucket than we know: catch up before acting.
    auto newer = co_await node.view.at_least(out.claim->map_version, out.claim->bmd_version);
    if (!newer) co_return fail(Errc::unavailable, "catching up: {}", newer.error().message);
    out.state = *newer;
    CO_TRY(const bool known, take_place(node, out));
    if (known) co_return Status();
  }
  // Before it says that a bucket does not exist, a node reads the store.
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

/// Whether it may be read here and now.
Status check_freshness(const TargetNode& node, const http::Request& request, ObjectRequest& out) {
  if (node.membership.lease().valid()) return {};
  if (http::asks_for_fresh(request.head()))
    return fail(Errc::unavailable, "this target has no lease now and cannot vouch for freshness");
  out.stale_seconds = node.membership.lease().stale_seconds();
  return {};
}

}  // namespace

Result<bool> admit_read_now(TargetNode& node, http::Request& request, ObjectRequest& out) {
  TRY(const bool admitted, admit_now(node, request, out));
  if (admitted) TRY_OK(check_freshness(node, request, out));
  return admitted;
}

Task<Status> admit_read_later(TargetNode& node, http::Request& request, ObjectRequest& out) {
  CO_TRY_OK(co_await catch_up(node, out));
  co_return check_freshness(node, request, out);
}

Task<Result<ObjectRequest>> admit_read(TargetNode& node, http::Request& request) {
  ObjectRequest wanted;
  CO_TRY(const bool admitted, admit_read_now(node, request, wanted));
  if (!admitted) CO_TRY_OK(co_await admit_read_later(node, request, wanted));
  co_return wanted;
}

Task<Result<ObjectRequest>> admit_write(TargetNode& node, http::Request& request) {
  ObjectRequest wanted;
  CO_TRY(const bool admitted, admit_now(node, request, wanted));
  if (!admitted) CO_TRY_OK(co_await catch_up(node, wanted));
  if (!wanted.claim)
    co_return fail(Errc::invalid_argument,
                   "a target takes {} only as a proxy redirects it: send it to a proxy and follow "
                   "the redirect (curl -L)",
                   request.head().method_text);
  if (!node.membership.lease().valid())
    co_return fail(Errc::unavailable, "this target has no lease now and takes no writes");
  // Before its lock: that may be held by a write which a drive that hangs has in hand.
  CO_TRY_OK(node.store.reachable(wanted.name));
  co_return wanted;
}

ObjectName name_in(const cluster::BucketRecord& bucket, std::string object) {
  return {bucket.id, bucket.placement_name(object), std::move(object),
          api::copies_of(bucket.props)};
}

Error object_missing(const ObjectRequest& wanted) {
  return {Errc::object_not_found,
          wanted.display() + " does not exist; PUT makes it (curl -L -T FILE URL, or tarn put)"};
}

Task<Result<std::vector<Located>>> find_present(TargetNode& node, const ObjectRequest& wanted) {
  CO_TRY(auto present, co_await node.store.find_all(wanted.name));
  if (!present.empty() && present.front().record.kind == io::ObjectRecord::Kind::object)
    co_return present;
  if (wanted.name.copies == 0 && !node.store.missing().empty())
    co_return fail(Errc::unavailable, "object {} is not here, but drive {} is away",
                   wanted.name.object, node.store.missing().begin()->first);
  co_return fail(object_missing(wanted));
}

Status readiness(const TargetNode& node) {
  if (!node.membership.lease().valid())
    return fail(Errc::unavailable, "no lease: the meta store cannot be reached");
  for (const auto& drive : node.store.drives())
    if (!drive->disabled() && drive->usable()) return {};
  return fail(Errc::unavailable, "no drive is usable");
}

}  // namespace tarn::target
