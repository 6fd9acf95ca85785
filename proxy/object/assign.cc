#include "proxy/object/assign.h"

#include "common/api/coding_props.h"
#include "common/api/mirror_props.h"
#include "common/api/object_query.h"
#include "common/api/upstream_props.h"
#include "common/base/check.h"
#include "common/base/encoding.h"
#include "common/base/random.h"
#include "common/cluster/place/hand_over.h"
#include "common/cluster/state/bucket_changes.h"
#include "common/cluster/state/client_addresses.h"
#include "proxy/object/one_meaning.h"
#include "proxy/object/upstream.h"

namespace tarn::proxy {
namespace {

constexpr std::int64_t kRedirectLifeSeconds = 300;
constexpr std::int64_t kClockSkewSeconds = 60;
constexpr std::size_t kUrlBytes = 512;  // most have 300

/// Length of the body that the target shall expect.
std::string announced_length(const http::RequestHead& head, Passage passage) {
  const bool is_relayed_get = passage == Passage::relayed && head.method == http::Method::get;
  if (is_relayed_get && !head.has_body()) return std::string(security::kRelayedLength);
  if (head.chunked)
    return std::string(passage == Passage::relayed ? security::kRelayedLength
                                                   : security::kChunkedLength);
  if (head.content_length && (head.has_body() || head.method == http::Method::put))
    return std::to_string(*head.content_length);
  return "";
}

/// Several ranges in one request are an error below /v1, as AIStore has it; of a plain path the
/// whole object is sent, as RFC 9110 allows. The target sees only paths below /v1.
bool wants_whole_for_ranges(const http::Request& request) {
  return request.head().field("Range").find(',') != std::string_view::npos &&
         !request.target.path.starts_with("/v1/");
}

/// Another replica of an object, which answers instead of its owner; `owner` when there is none.
const cluster::Node* next_replica(const cluster::ClusterState& state, const Answering& answering,
                                  const cluster::BucketRecord& bucket, std::string_view object,
                                  const cluster::Node* owner) {
  const cluster::ReplicaCount count = bucket.replica_count();
  if (!count.many()) return owner;
  const auto digest = cluster::placement_digest(bucket.placement_name(object));
  const cluster::NodeSet& nodes = state.ownership->map->current;
  for (const cluster::Replica& replica : nodes.replicas(digest, count.at(state.map.version))) {
    const cluster::Node* node = state.map.find(nodes.id(replica.node));
    if (node != nullptr && answering.contains(node->id)) return node;
  }
  return owner;
}

/// True if a replica is authoritative for its version without asking other replicas.
bool answers_alone(const cluster::ClusterState& state, const std::string& id, std::uint64_t digest,
                   const cluster::ReplicaCount& count) {
  const cluster::Ownership& map = *state.ownership->map;
  return map.past.empty() || cluster::readers_of(map, id, digest, count, 0).empty();
}

/// The replica that a reader of the bytes is sent to, when each answers alone; null for names with
/// one copy, and when no replica is sure to have the object: then owner_for().
const cluster::Node* reader_replica(const cluster::ClusterState& state, const Answering& answering,
                                    const cluster::BucketRecord& bucket, std::string_view object) {
  const cluster::ReplicaCount count = bucket.replica_count();
  if (!count.many()) return nullptr;
  const auto digest = cluster::placement_digest(bucket.placement_name(object));
  const cluster::NodeSet& nodes = state.ownership->map->current;
  std::vector<const cluster::Node*> replicas;
  std::vector<std::shared_ptr<const LoadReport>> reports;
  std::vector<LoadReport::Load> loads;
  const auto places = nodes.replicas(digest, count.at(state.map.version));
  for (const cluster::Replica& replica : places) {
    const std::string& id = nodes.id(replica.node);
    const cluster::Node* node = state.map.find(id);
    const auto said = answering.loads.find(id);
    if (node == nullptr || replica.drive != 0 || said == answering.loads.end()) continue;
    if (!answering.contains(id) || !state.live.contains(id)) continue;
    if (!answers_alone(state, id, digest, count)) continue;
    replicas.push_back(node);
    reports.push_back(said->second->get());
    loads.push_back(reports.back()->of(digest));
  }
  if (replicas.empty()) return nullptr;
  const auto coding = api::coding_of(bucket.props);
  const bool is_owner_first = replicas.front()->id == nodes.id(places.front().node);
  const std::size_t chosen =
      least_busy(loads, random_u64(), coding && coding->full_copy && is_owner_first);
  TARN_CHECK(chosen < replicas.size() && reports.size() == replicas.size());
  reports[chosen]->note_sent(digest);
  return replicas[chosen];
}

/// Refuses early the requests that targets refuse as well, before a body travels. Ais-Blob-Download
/// asks for a large object to be fetched in parts, which is done in any case.
Status check_known_words(const http::Request& request) {
  return api::check_object_query(request.query());
}

/// The address of `target` for the one that will call it: the client, or this proxy.
const std::string& origin_of(const Services& services, const http::Request& request,
                             const cluster::Node& target, Passage passage) {
  return passage == Passage::redirected
             ? cluster::url_for_client(target, request.exchange.remote_address())
             : cluster::url_for_node(target, services.membership.self());
}

std::string signed_url(const Services& services, const http::Request& request,
                       const cluster::ClusterState& state, const cluster::Node& target,
                       const Wanted& wanted, Passage passage) {
  const std::int64_t now_ns = services.clock.wall_time().count();
  security::RedirectClaim claim;
  claim.method = request.head().method_text;
  claim.target_id = target.id;
  claim.uname = wanted.uname;
  claim.proxy_id = services.node_id();
  claim.issued_ns = now_ns;
  claim.expires_s = now_ns / 1'000'000'000 + kRedirectLifeSeconds + kClockSkewSeconds;
  claim.map_version = state.map.version;
  claim.bmd_version = state.bmd.version;
  claim.length = announced_length(request.head(), passage);
  claim.request_id = request.exchange.request_id();
  api::Query query = request.query();
  if (!query.find("provider")) query.set("provider", wanted.bucket.provider);
  if (wants_whole_for_ranges(request)) query.set("multirange", "whole");
  // A rename has the new name in its body, which the target alone reads.
  if (request.head().method == http::Method::post && is_default_bucket(services, wanted.bucket))
    query.set("default_bucket", "true");
  std::string url;
  url.reserve(kUrlBytes);
  url += origin_of(services, request, target, passage);
  api::append_object_path(url, wanted.bucket.name, wanted.object);
  url += '?';
  services.signer.append_signed(url, claim, query);
  return url;
}

/// A PUT must not give an object a path that is a bucket's: its own, or that of a copy.
Status check_new_path(const Services& services, const http::Request& request,
                      const cluster::ClusterState& state, const Wanted& wanted) {
  if (request.head().method != http::Method::put) return {};
  const auto copy = request.query().find("object_to");
  if (!copy) return check_path_is_no_bucket(services, state, wanted.bucket, wanted.object);
  const auto goal = api::parse_uname(*copy);
  if (!goal) return {};  // its target refuses it
  return check_path_is_no_bucket(services, state, goal->bucket, goal->object);
}

/// Refuses requests that a bucket with an upstream cannot serve. A DELETE may be an eviction, and
/// the body of a POST may be a question: the target decides.
Status check_write_through(const http::Request& request, const cluster::BucketRecord& bucket) {
  const http::Method method = request.head().method;
  const bool copies = request.query().find("object_to").has_value();  // from it: it is read
  const bool writes = bucket.name.provider != "ht";
  const bool is_told_by_body = method == http::Method::del || method == http::Method::post;
  if (access_of(method) == Access::write && !is_told_by_body && !writes && !copies)
    return fail(no_write_through(bucket.name));
  TRY(const bool synchronize, request.query().flag("synchronize"));
  if (synchronize && copies)
    return fail(Errc::unsupported,
                "synchronize: copies of one object have latest-ver only; what is gone upstream "
                "stays in the copy");
  TRY(const bool latest, request.query().flag("latest-ver"));
  if (!latest || copies || access_of(method) == Access::read) return {};
  return fail(Errc::unsupported,
              "latest-ver: this version of Tarn has it for GET, HEAD and copies only");
}

/// The end of assign(), when the bucket is known.
Result<Assignment> assign_to_owner(const Services& services, const http::Request& request,
                                   KnownBucket known, const Wanted& wanted, Passage passage) {
  const auto answering = services.suspects.answering();
  const Access access = access_of(request.head().method);
  if (api::has_upstream(known.record->name)) TRY_OK(check_write_through(request, *known.record));
  TRY_OK(check_new_path(services, request, *known.state, wanted));
  // An owner knows the last reads of a cache, and fetches missing objects.
  const bool may_choose =
      request.head().method == http::Method::get && !api::has_upstream(known.record->name);
  const cluster::Node* target =
      may_choose ? reader_replica(*known.state, *answering, *known.record, wanted.object) : nullptr;
  if (target == nullptr) {
    TRY(target, owner_for(*known.state, *answering, *known.record, wanted.object, access));
  }
  std::string url = signed_url(services, request, *known.state, *target, wanted, passage);
  return Assignment{std::move(known.state), target, std::move(url)};
}

}  // namespace

Error bucket_not_found(const api::Bucket& name) {
  if (api::has_upstream(name))
    return {Errc::remote_not_known,
            fmt::format("bucket \"{0}\" is not known to this cluster; make it known with: tarn "
                        "bucket create {0}",
                        name.display())};
  if (name.provider != "ais")
    return {Errc::bucket_not_found,
            fmt::format("bucket \"{}\" does not exist: this version of Tarn has buckets of its own "
                        "(ais://), of S3 (s3://), of Google (gs://), of Azure (az://) and of web "
                        "servers (ht://) only",
                        name.display())};
  return {Errc::bucket_not_found,
          fmt::format("bucket \"{}\" does not exist; see which there are with GET /v1/buckets, or "
                      "with: tarn ls",
                      name.display())};
}

bool is_unknown_bucket(const Error& error) {
  return error.code == Errc::bucket_not_found || error.code == Errc::remote_not_known;
}

Error bucket_to_make(const api::Bucket& name) {
  if (name.provider != "ais") return bucket_not_found(name);
  return {Errc::bucket_not_found,
          fmt::format("bucket \"{}\" does not exist; make it with POST /v1/buckets/{} and the body "
                      "{{\"action\":\"create-bck\"}}, or with: tarn bucket create {}",
                      name.display(), name.name, name.name)};
}

api::Bucket plain_bucket(std::string name) {
  api::Bucket out;
  out.name = std::move(name);
  return out;
}

Task<Result<KnownBucket>> find_bucket(const Services& services, api::Bucket name) {
  auto state = services.view.state();
  const auto* record = state->bmd.find(name);
  if (record == nullptr) {
    CO_TRY(state, co_await services.view.fresh());
    record = state->bmd.find(name);
  }
  if (record == nullptr) co_return fail(bucket_not_found(name));
  if (record->ending) co_return fail(cluster::being_destroyed(name));
  co_return KnownBucket{std::move(state), record};
}

Access access_of(http::Method method) {
  return method == http::Method::get || method == http::Method::head ? Access::read : Access::write;
}

Result<const cluster::Node*> owner_for(const cluster::ClusterState& state,
                                       const Answering& answering,
                                       const cluster::BucketRecord& bucket, std::string_view object,
                                       Access access) {
  const cluster::Node* owner = cluster::owner_of(state.map, bucket.placement_name(object));
  if (owner == nullptr) return fail(Errc::unavailable, "the cluster has no storage target now");
  if (!answering.contains(owner->id) && access == Access::read)
    owner = next_replica(state, answering, bucket, object, owner);
  if (!answering.contains(owner->id))
    return fail(Errc::unavailable, "target t[{}], which owns {}/{}, does not answer now", owner->id,
                bucket.name.display(), object);
  if (access == Access::write && !state.live.contains(owner->id))
    return fail(Errc::unavailable, "target t[{}], which owns {}/{}, has no lease now", owner->id,
                bucket.name.display(), object);
  return owner;
}

Status check_body_framing(const http::RequestHead& head) {
  if (head.method == http::Method::put && !head.content_length && !head.chunked)
    return fail(Errc::length_required,
                "a PUT needs a Content-Length (0 for an empty object) or chunked encoding");
  return {};
}

bool is_safe_to_redirect(const http::RequestHead& head) {
  return !head.chunked || head.expects_continue;
}

std::string Wanted::display() const { return bucket.display() + "/" + std::string(object); }

Result<Wanted> wanted_by(const http::Request& request, std::string_view bucket,
                         std::string_view object) {
  Wanted wanted;
  // AIStore's command line asks whether a prefix is an object: it surely is not.
  wanted.is_prefix = access_of(request.head().method) == Access::read && object.size() > 1 &&
                     object.ends_with('/');
  TRY_OK(api::check_bucket_name(bucket));
  TRY_OK(wanted.is_prefix ? api::check_prefix(object) : api::check_object_name(object));
  TRY_OK(check_known_words(request));
  TRY(wanted.bucket, api::bucket_from(bucket, request.query()));
  wanted.object = object;
  wanted.uname = wanted.bucket.uname(object);
  return wanted;
}

Task<Result<Assignment>> assign(const Services& services, const http::Request& request,
                                const Wanted& wanted, Passage passage) {
  auto found = co_await find_or_adopt_bucket(services, wanted.bucket);
  if (!found && is_unknown_bucket(found.error()) && request.head().method == http::Method::put)
    co_return fail(bucket_to_make(wanted.bucket));
  CO_TRY(KnownBucket known, std::move(found));
  if (wanted.is_prefix)
    co_return fail(Errc::object_not_found, "{} does not exist: names of objects do not end in '/'",
                   wanted.display());
  co_return assign_to_owner(services, request, std::move(known), wanted, passage);
}

std::optional<Assignment> assign_at_once(const Services& services, const http::Request& request,
                                         const Wanted& wanted, Passage passage) {
  if (wanted.is_prefix) return std::nullopt;
  KnownBucket known{services.view.state(), nullptr};
  known.record = known.state->bmd.find(wanted.bucket);
  if (known.record == nullptr || known.record->ending) return std::nullopt;
  auto assigned = assign_to_owner(services, request, std::move(known), wanted, passage);
  if (!assigned) return std::nullopt;
  return std::move(*assigned);
}

}  // namespace tarn::proxy
