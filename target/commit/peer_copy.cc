// Copies of whole objects, within this target and to another one. Two targets meet here as a proxy
// and a target do: by a signed PUT on the public listener, checksum and metadata in its head.

#include "target/commit/peer_copy.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/api/status.h"
#include "common/api/upstream_props.h"
#include "common/base/buffer_pool.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/cluster/state/client_addresses.h"
#include "target/coded/object_bytes.h"
#include "target/coded/put_tombstone.h"
#include "target/node/node_call.h"
#include "target/replica/away_drive.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

constexpr std::int64_t kPeerCopyLifeSeconds = 300;
constexpr std::size_t kPeerCopyAnswerBytes = 2048;

/// A request for an object as its owner takes it: signed, as a proxy would. `length`: of the body;
/// empty for none. A HEAD in a bucket with an upstream makes the owner ask upstream.
http::ClientRequest signed_request(const TargetNode& node, const std::string& request_id,
                                   http::Method method, std::string length, const Destination& to) {
  const std::int64_t now_ns = node.clock.wall_time().count();
  const ObjectRequest& object = to.object;
  security::RedirectClaim claim;
  claim.method = http::to_string(method);
  claim.target_id = to.owner->id;
  claim.uname = object.bucket.name.uname(object.name.object);
  claim.proxy_id = node.id;
  claim.issued_ns = now_ns;
  claim.expires_s = now_ns / 1'000'000'000 + kPeerCopyLifeSeconds;
  claim.map_version = object.state->map.version;
  claim.bmd_version = object.state->bmd.version;
  claim.length = std::move(length);
  claim.request_id = request_id;
  api::Query query;
  query.set("provider", object.bucket.name.provider);
  if (method == http::Method::head && api::has_upstream(object.bucket.name))
    query.set("latest-ver", "true");
  if (!object.bucket.name.ns_uuid.empty() || !object.bucket.name.ns_name.empty())
    query.set("namespace", "@" + object.bucket.name.ns_uuid + "#" + object.bucket.name.ns_name);
  http::ClientRequest out;
  out.method = method;
  out.target = api::object_path(object.bucket.name.name, object.name.object) + "?";
  node.signer.append_signed(out.target, claim, query);
  return out;
}

http::ClientRequest put_request(const TargetNode& node, const std::string& request_id,
                                const io::ObjectRecord& record, const Destination& to,
                                const http::RequestHead* conditions) {
  auto out = signed_request(node, request_id, http::Method::put, std::to_string(record.size), to);
  out.fields.push_back({"Ais-Checksum-Type", "xxhash2"});
  out.fields.push_back({"Ais-Checksum-Value", hex64(record.xxh64)});
  for (const auto& [key, value] : record.custom)
    if (!api::is_reserved_key(key))  // the bucket there decides which checksum it keeps
      out.fields.push_back({"Ais-Custom-Md", fmt::format("{}={}", key, value)});
  if (record.size > 0) out.fields.push_back({"Expect", "100-continue"});
  for (const char* condition : {"If-Match", "If-None-Match", "If-Unmodified-Since"})
    if (conditions != nullptr && !conditions->field(condition).empty())
      out.fields.push_back({condition, std::string(conditions->field(condition))});
  return out;
}

/// The listener that takes objects, as this node reaches it.
Result<http::Url> address_of(const TargetNode& node, const cluster::Node& other) {
  return http::parse_url(cluster::url_for_node(other, node.membership.self()));
}

Error peer_lost(const Destination& to, const Error& cause) {
  return {Errc::unavailable, fmt::format("target t[{}], which owns {}, did not answer: {}",
                                         to.owner->id, to.object.display(), cause.message)};
}

/// Error of a copy whose receiver knows a newer map than we do.
Error moved_on(const Destination& to) {
  return {Errc::unavailable,
          fmt::format("{} has just got another owner than target t[{}]; try again",
                      to.object.display(), to.owner->id)};
}

/// Sends the bytes until all are through or the peer has answered.
Task<Status> send_bytes(http::ClientStream& stream, ObjectBytes& bytes, std::stop_token stop) {
  const PooledBuffer buffer(PooledBuffer::kBlockBytes);
  while (!stream.answer_ready()) {
    if (stop.stop_requested()) co_return fail(Errc::cancelled, "the copy was told to stop");
    CO_TRY(const std::size_t got, co_await bytes.next(buffer.span()));
    if (got == 0) break;
    const Status sent = co_await stream.write(buffer.span().first(got));
    if (!sent) co_return Status();  // the peer may have sent why: see its answer
  }
  if (!stream.answer_ready()) static_cast<void>(co_await stream.finish());
  co_return Status();
}

Task<Status> copy_to_peer(TargetNode& node, const std::string& request_id, const ObjectName& name,
                          OpenObject& from, const Destination& to, CopyTerms terms) {
  CO_TRY(http::Url address, address_of(node, *to.owner));
  auto opened = co_await node.client.open(
      std::move(address), put_request(node, request_id, from.record(), to, terms.conditions),
      from.record().size, transfer_limits(from.record().size));
  if (!opened) co_return fail(peer_lost(to, opened.error()));
  http::ClientStream stream = std::move(*opened);
  auto answer = co_await stream.read_head();
  if (!answer) co_return fail(peer_lost(to, answer.error()));
  if (answer->status < 200) {
    ObjectBytes bytes(node, name, from);
    CO_TRY_OK(co_await send_bytes(stream, bytes, terms.stop));
    answer = co_await stream.read_head();
    if (!answer) co_return fail(peer_lost(to, answer.error()));
  }
  const std::string text = co_await read_text(stream, kPeerCopyAnswerBytes);
  if (answer->status == 200) co_return Status();
  if (answer->status / 100 == 3) co_return fail(moved_on(to));
  co_return fail(api::errc_of_answer(answer->status, text), "target t[{}]: {}", to.owner->id,
                 api::error_message_of(text));
}

Task<Status> copy_here(TargetNode& node, const ObjectName& name, OpenObject& from,
                       const Destination& to, CopyTerms terms) {
  if (terms.conditions != nullptr)
    CO_TRY_OK(co_await check_before_body(node, *terms.conditions, to.object));
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node, to.object.name.uname));
  CO_TRY(auto file, co_await create_here(node, to.object.name, from.record().size));
  Digests digests;
  BodyChecksums kept;
  kept.keep(api::checksum_type_of(to.object.bucket.props));
  CO_TRY_OK(co_await copy_bytes(node, name, from, *file, digests, terms.stop, &kept));
  if (digests.xxh64() != from.record().xxh64)
    co_return fail(Errc::corrupt, "what was copied to {} does not match its checksum",
                   to.object.display());
  CO_TRY_OK(kept.check(digests.xxh64()));
  api::CustomMetadata custom = from.record().custom;
  kept.note_kept(custom);
  if (api::has_upstream(to.object.bucket.name)) {
    CO_TRY_OK(co_await node.upstream_writes->put(to.object, write, new_bytes(*file, digests),
                                                 std::move(custom), terms.conditions, nullptr));
    co_return check_lease_before_reply(write);
  }
  CO_TRY(const io::ObjectRecord record,
         co_await commit_file(node, to.object, write, new_bytes(*file, digests), std::move(custom),
                              terms.conditions));
  co_await confirm_replicas(node, to.object.name, record.generation);
  co_return check_lease_before_reply(write);
}

/// The newest version in this target's charge, which owns the name. bucket_not_found when the
/// bucket is gone.
Task<Result<Newest>> newest_here(TargetNode& node, const ObjectRequest& wanted) {
  CO_TRY(Newest found, co_await find_complete(node, wanted));
  // A bucket that is being destroyed loses its records only after its entry is gone.
  if (node.view.state()->bmd.find(wanted.name.bucket) == nullptr)
    co_return fail(Errc::bucket_not_found, "bucket \"{}\" does not exist",
                   wanted.bucket.name.display());
  co_return found;
}

/// Answer of another target, the object's owner, to a HEAD; nothing when there is no object.
Task<Result<std::optional<http::ClientResponse>>> head_of(TargetNode& node,
                                                          const std::string& request_id,
                                                          const Destination& object) {
  CO_TRY(http::Url address, address_of(node, *object.owner));
  auto answer = co_await node.client.call(
      std::move(address), signed_request(node, request_id, http::Method::head, "", object));
  if (!answer) co_return fail(peer_lost(object, answer.error()));
  if (answer->status == 200) co_return std::optional(std::move(*answer));
  if (answer->status / 100 == 3) co_return fail(moved_on(object));
  const std::string_view why = answer->field("Hdr-Error");
  if (answer->status == 404 && api::tcode_of(why) == api::tcode(Errc::object_not_found))
    co_return std::optional<http::ClientResponse>();
  co_return fail(api::errc_of_answer(answer->status, why), "target t[{}]: {}", object.owner->id,
                 api::error_message_of(why));
}

/// Without the checksum, which is the bucket's; in order.
api::CustomMetadata users_custom(api::CustomMetadata custom) {
  std::erase_if(custom, [](const auto& pair) { return api::is_reserved_key(pair.first); });
  std::sort(custom.begin(), custom.end());
  return custom;
}

/// The same of the answer to a HEAD.
api::CustomMetadata custom_of(const http::ClientResponse& head) {
  api::CustomMetadata out;
  for (const http::Field& field : head.fields)
    if (iequals(field.name, "Ais-Custom-Md"))
      if (const auto at = field.value.find('='); at != std::string::npos)
        out.emplace_back(field.value.substr(0, at), field.value.substr(at + 1));
  for (const char* name : {"Content-Type", "Content-Encoding"})
    if (const auto value = head.field(name); !value.empty() && value != http::kBytes)
      out.emplace_back(name, value);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Task<Result<Destination>> find_destination(TargetNode& node, api::ObjectAddress address) {
  Destination to;
  ObjectRequest& object = to.object;
  object.state = node.view.state();
  const auto* bucket = object.state->bmd.find(address.bucket);
  if (bucket == nullptr) {
    CO_TRY(object.state, co_await node.view.fresh());
    bucket = object.state->bmd.find(address.bucket);
  }
  if (bucket == nullptr)
    co_return fail(Errc::bucket_not_found, "bucket \"{}\" does not exist",
                   address.bucket.display());
  object.bucket = *bucket;
  object.name = name_in(*bucket, std::move(address.object));
  to.owner = cluster::owner_of(object.state->map, object.name.uname);
  if (to.owner == nullptr) co_return fail(Errc::unavailable, "no target owns {}", object.display());
  co_return to;
}

Task<Result<bool>> confirm_source(TargetNode& node, const ObjectRequest& source, bool evict_gone) {
  CO_TRY(const Newest newest, co_await find_complete(node, source));
  if (!newest.exists()) co_return true;
  const auto confirmed = co_await node.cold->confirm(source, *newest.record);
  if (confirmed) co_return true;
  if (confirmed.error().code != Errc::object_not_found) co_return fail(confirmed.error());
  if (evict_gone) CO_TRY_OK(co_await delete_version(node, source, newest.record->generation));
  co_return false;
}

Task<Result<std::shared_ptr<OpenObject>>> open_source(TargetNode& node, const ObjectRequest& wanted,
                                                      std::stop_token stop) {
  CO_TRY(auto from, co_await open_newest(node, wanted));
  if (from || !api::has_upstream(wanted.bucket.name)) co_return from;
  const auto fetched = co_await node.cold->fetch(wanted, std::move(stop));
  if (!fetched && fetched.error().code == Errc::object_not_found) co_return from;
  if (!fetched) co_return fail(fetched.error());
  CO_TRY(from, co_await open_newest(node, wanted));
  if (from) co_return from;
  co_return fail(Errc::unavailable, "{} is being written upstream; try again", wanted.display());
}

Task<Status> copy_to(TargetNode& node, const std::string& request_id, const ObjectName& name,
                     OpenObject& from, const Destination& to, CopyTerms terms) {
  if (to.owner->id == node.id) co_return co_await copy_here(node, name, from, to, std::move(terms));
  co_return co_await copy_to_peer(node, request_id, name, from, to, std::move(terms));
}

Task<Result<bool>> is_there(TargetNode& node, const std::string& request_id,
                            const Destination& object) {
  if (object.owner->id == node.id) {
    CO_TRY(const Newest found, co_await newest_here(node, object.object));
    if (!api::has_upstream(object.object.bucket.name)) co_return found.exists();
    if (found.exists()) co_return co_await confirm_source(node, object.object);
    const auto upstream = co_await node.cold->size(object.object);
    if (upstream) co_return true;
    if (upstream.error().code == Errc::object_not_found) co_return false;
    co_return fail(upstream.error());
  }
  CO_TRY(const auto head, co_await head_of(node, request_id, object));
  co_return head.has_value();
}

Task<Result<bool>> is_copied(TargetNode& node, const std::string& request_id,
                             const OpenObject& from, const Destination& to) {
  const io::ObjectRecord& source = from.record();
  if (to.owner->id == node.id) {
    CO_TRY(const Newest found, co_await newest_here(node, to.object));
    co_return found.exists() && found.record->etag() == source.etag() &&
        users_custom(found.record->custom) == users_custom(source.custom);
  }
  CO_TRY(const auto head, co_await head_of(node, request_id, to));
  co_return head && head->field("ETag") == source.etag() &&
      custom_of(*head) == users_custom(source.custom);
}

}  // namespace tarn::target
