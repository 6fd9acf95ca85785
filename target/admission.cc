#include "common/api/object_query.h"
#include "common/cluster/state.h"
#include "common/http/message.h"
#include "target/node.h"

namespace tarn::target {
namespace {

/// Bucket and object of "/v1/objects/<bucket>/<object>".
struct ParsedName {
  api::Bucket bucket;
  std::string object;
};

Result<ParsedName> parse_name(const http::Request& request) {
  if (request.parts.size() < 2 || request.parts[1].empty())
    return fail(Errc::invalid_argument, "the path names no object: /v1/objects/<bucket>/<object>");
  ParsedName parsed;
  TRY(parsed.bucket, api::bucket_from(request.parts[0], request.query()));
  TRY_OK(api::check_bucket_name(parsed.bucket.name));
  parsed.object = request.parts[1];
  TRY_OK(api::check_object_name(parsed.object));
  TRY_OK(api::check_object_query(request.query()));
  return parsed;
}

Task<Result<ObjectRequest>> admit(TargetNode& node, http::Request& request) {
  CO_TRY(const ParsedName parsed, parse_name(request));
  ObjectRequest admitted;
  admitted.name.object = parsed.object;
  CO_TRY(admitted.claim, node.signer.verify(request.head().method_text, node.id,
                                            parsed.bucket.uname(parsed.object), request.query()));
  admitted.state = node.view.state();
  if (admitted.claim) {
    if (!admitted.claim->request_id.empty())
      request.exchange.set_request_id(admitted.claim->request_id);
    // The proxy acted on a newer map or a newer bucket than we know: catch up before acting.
    auto newer =
        co_await node.view.at_least(admitted.claim->map_version, admitted.claim->bmd_version);
    if (!newer) co_return fail(Errc::unavailable, "catching up: {}", newer.error().message);
    admitted.state = *newer;
  }
  const auto* bucket = admitted.state->bmd.find(parsed.bucket);
  if (bucket == nullptr) {
    // Before it says that a bucket does not exist, a node reads the store.
    const auto fresh = co_await node.view.fresh();
    if (!fresh)
      co_return fail(Errc::unavailable, "bucket {} is unknown here and the meta store is away",
                     parsed.bucket.display());
    admitted.state = *fresh;
    bucket = admitted.state->bmd.find(parsed.bucket);
  }
  if (bucket == nullptr)
    co_return fail(Errc::bucket_not_found, "bucket \"{}\" does not exist", parsed.bucket.display());
  admitted.bucket = *bucket;
  admitted.name.bucket = bucket->id;
  admitted.name.uname = bucket->placement_name(parsed.object);
  const auto* owner = cluster::owner_of(admitted.state->map, admitted.name.uname);
  if (owner == nullptr || owner->id != node.id)
    co_return fail(Errc::unavailable, "object {} belongs to target {}, this is {}: ask a proxy",
                   parsed.object, owner == nullptr ? "nobody" : owner->id, node.id);
  co_return admitted;
}

}  // namespace

Task<Result<ObjectRequest>> admit_read(TargetNode& node, http::Request& request) {
  CO_TRY(auto admitted, co_await admit(node, request));
  if (node.membership.lease().valid()) co_return admitted;
  if (request.head().field("Cache-Control").find("no-cache") != std::string_view::npos)
    co_return fail(Errc::unavailable,
                   "this target has no lease now and cannot vouch for freshness");
  admitted.stale_seconds = node.membership.lease().stale_seconds();
  co_return admitted;
}

Task<Result<ObjectRequest>> admit_write(TargetNode& node, http::Request& request) {
  CO_TRY(auto admitted, co_await admit(node, request));
  if (!admitted.claim)
    co_return fail(Errc::invalid_argument,
                   "a target takes {} only as a proxy redirects it: send it to a proxy and follow "
                   "the redirect (curl -L)",
                   request.head().method_text);
  if (!node.membership.lease().valid())
    co_return fail(Errc::unavailable, "this target has no lease now and takes no writes");
  // Before its lock: that may be held by a write which a drive that hangs has in hand.
  CO_TRY_OK(node.store.reachable(admitted.name));
  co_return admitted;
}

Error object_missing(const ObjectRequest& wanted) {
  return {Errc::object_not_found,
          wanted.display() + " does not exist; PUT makes it (curl -L -T FILE URL, or tarn put)"};
}

Task<Result<std::vector<Located>>> find_present(TargetNode& node, const ObjectRequest& wanted) {
  CO_TRY(auto present, co_await node.store.find_all(wanted.name));
  if (!present.empty() && present.front().record.kind == io::ObjectRecord::Kind::object)
    co_return present;
  if (!node.store.missing().empty())
    co_return fail(Errc::unavailable, "object {} is not here, but drive {} is away",
                   wanted.name.object, node.store.missing().begin()->first);
  co_return fail(object_missing(wanted));
}

Status readiness(const TargetNode& node) {
  if (!node.membership.lease().valid())
    return fail(Errc::unavailable, "no lease: the meta store cannot be reached");
  for (const auto& drive : node.store.drives())
    if (drive->usable()) return {};
  return fail(Errc::unavailable, "no drive is usable");
}

}  // namespace tarn::target
