#include "target/commit/incoming.h"

#include <array>

#include "common/api/coding_props.h"
#include "common/api/upstream_props.h"
#include "common/base/buffer_pool.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/cluster/state/bucket_changes.h"
#include "target/coded/coded_write.h"
#include "target/coded/former_slices.h"
#include "target/coded/object_bytes.h"
#include "target/commit/recode.h"
#include "target/drive/block_writer.h"
#include "target/drive/record_fields.h"
#include "target/node/bodies.h"
#include "target/replica/away_drive.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

/// Returns the visible records of a mirrored name. Of another name, whose drive may be away,
/// returns what the other drives have.
Task<Result<std::vector<Located>>> lookup_for_write(TargetNode& node, ObjectName name) {
  if (name.copies > 0) co_return co_await node.store.find_seen(std::move(name));
  co_return co_await find_here(node, std::move(name));
}

bool comes_from_upstream(const api::CustomMetadata& custom) {
  return std::any_of(custom.begin(), custom.end(),
                     [](const auto& pair) { return pair.first == api::kSourceKey; });
}

}  // namespace

bool has_write_conditions(const http::RequestHead* head) {
  return head != nullptr &&
         (!head->field("If-Match").empty() || !head->field("If-None-Match").empty() ||
          !head->field("If-Unmodified-Since").empty());
}

Status check_announced_length(const http::RequestHead& head, const security::RedirectClaim& claim) {
  if (!SAFETY("safety.redirect_length")) return {};
  if (head.chunked && claim.length == security::kRelayedLength) return {};
  std::string sent = head.chunked          ? std::string(security::kChunkedLength)
                     : head.content_length ? std::to_string(*head.content_length)
                                           : "none";
  // Verbs other than PUT may come without body, announced or not.
  if (head.method != http::Method::put && !head.has_body()) sent = "";
  if (sent == claim.length) return {};
  return fail(
      Errc::invalid_argument,
      "body lost in a redirect: {} bytes were announced to the proxy, {} are announced here. "
      "Your HTTP client does not send the body again; use the relay listener",
      claim.length.empty() ? "no" : claim.length, sent.empty() ? "none" : sent);
}

Task<Status> receive_body(http::Exchange& exchange, WorkFile& file, Digests& digests,
                          BodyChecksums& announced, Xxh64Stream* part,
                          const std::function<void(std::uint64_t)>& written) {
  CO_TRY_OK(check_memory());
  std::array<PooledBuffer, 2> buffers{PooledBuffer(PooledBuffer::kSmallBytes),
                                      PooledBuffer(PooledBuffer::kSmallBytes)};
  io::DriveThreads::Pending<Status> writing;
  const auto see = [&](std::span<const std::byte> chunk) {
    digests.update(chunk);
    announced.update(chunk);
    if (part != nullptr) part->update(chunk);
  };
  Status result;
  for (std::size_t turn = 0;; turn ^= 1U) {
    const auto buffer = buffers[turn].span();
    const auto got = co_await read_full(exchange, buffer, see);
    if (writing.valid()) {
      auto done = co_await writing.get();
      if (done && got && written) written(digests.size() - *got);
      if (done) done = co_await file.drive().room(file);
      if (!done) result = std::move(done);
    }
    if (!got && result) result = fail(got.error());
    if (!result || *got == 0) co_return result;
    writing = file.drive().write(file, buffer.first(*got), digests.size() - *got);
  }
}

Task<Status> copy_bytes(TargetNode& node, const ObjectName& name, OpenObject& from, WorkFile& file,
                        Digests& digests, std::stop_token stop, BodyChecksums* also) {
  ObjectBytes bytes(node, name, from);
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): outlives write_chunks()
  const auto next = [&](std::span<std::byte> into) -> Task<Result<std::size_t>> {
    if (stop.stop_requested()) co_return fail(Errc::cancelled, "the copy was told to stop");
    CO_TRY(const std::size_t got, co_await bytes.next(into));
    if (also != nullptr) also->update(into.first(got));
    co_return got;
  };
  co_return co_await write_chunks(file, digests, next);
}

Status check_write_allowed(const http::RequestHead& head, const Newest& newest,
                           const ObjectRequest& wanted) {
  const bool there = newest.exists();
  const std::string etag = there ? newest.record->etag() : std::string();
  std::optional<std::int64_t> modified;
  if (there) modified = modified_seconds(*newest.record);
  if (http::check_write_conditions(head, etag, modified) == http::Condition::proceed) return {};
  return fail(Errc::precondition_failed, "{} {}", wanted.display(),
              there ? "is now " + etag : "does not exist");
}

Task<Status> check_before_body(TargetNode& node, const http::RequestHead& head,
                               const ObjectRequest& wanted) {
  if (api::has_upstream(wanted.bucket.name))
    co_return co_await node.upstream_writes->check(wanted, head);
  if (!has_write_conditions(&head)) co_return Status();
  CO_TRY(const Newest newest, co_await find_complete(node, wanted));
  co_return check_write_allowed(head, newest, wanted);
}

NewBytes new_bytes(WorkFile& file, const Digests& digests) {
  return {file, digests.size(), digests.xxh64(), digests.blocks()};
}

NewBytes Sliced::instead_of(NewBytes whole) const {
  if (coded == nullptr) return whole;
  NewBytes out{*empty, coded->size(), coded->xxh64()};
  out.coded = coded.get();
  out.modified_ns = whole.modified_ns;
  return out;
}

Task<Result<Sliced>> slice_file(TargetNode& node, const ObjectRequest& wanted,
                                const NewBytes& bytes) {
  Sliced out;
  const auto coding = api::coding_of(wanted.bucket.props);
  const bool is_wanted = coding && bytes.coded == nullptr && bytes.kept == nullptr;
  if (!is_wanted || !coding->is_coded(bytes.size)) co_return out;
  CO_TRY(out.coded, co_await encode_file(node, wanted, bytes.file, bytes.size, bytes.xxh64));
  CO_TRY(out.empty, co_await create_here(node, wanted.name, 0));
  co_return out;
}

Task<Result<io::ObjectRecord>> commit_file(TargetNode& node, const ObjectRequest& wanted,
                                           const OwnedNames::Write& write, NewBytes bytes,
                                           api::CustomMetadata custom,
                                           const http::RequestHead* conditions) {
  // A body of unknown length, or an upload in parts, is cut when all of it is there.
  CO_TRY(const Sliced sliced, co_await slice_file(node, wanted, bytes));
  // Without the lock, which that needs.
  CO_TRY_OK(co_await resolve_copies(node, wanted.name));
  // Pending versions of other replicas are sent to this node as well.
  if (!has_full_view(node, wanted.name)) CO_TRY_OK(co_await find_complete(node, wanted));
  const auto held = co_await node.store.locks().acquire(wanted.name.key());
  WorkFile& file = bytes.file;
  CO_TRY(auto record,
         co_await commit_locked(node, wanted, write, sliced.instead_of(std::move(bytes)),
                                std::move(custom), conditions));
  if (sliced.empty != nullptr && sliced.empty->degraded()) file.set_degraded();
  co_return record;
}

namespace {

/// Seals the slices of `bytes` for the version of `attribute`, whose record no other node has yet,
/// and puts their coding into it. `last`: the version before, or nothing. Under the name's lock.
/// Errors as CodedWrite::seal().
Task<Status> seal_slices(TargetNode& node, const ObjectName& name, const OwnedNames::Write& write,
                         const NewBytes& bytes, const std::optional<io::ObjectRecord>& last,
                         io::ObjectAttribute& attribute) {
  // Before any replica gets the record (docs/decisions/019, rule N); what the one before names
  // stays until this one is complete (rule D).
  if (!SAFETY("safety.seal_first")) {
    const VersionInFlight outbound{attribute, &bytes.file, &bytes.blocks, nullptr};
    CO_TRY_OK(co_await replicate(node, name, write, cluster::Durability::full, outbound));
  }
  if (last && last->coding && !SAFETY("safety.drop_after_commit"))
    drop_former(node, co_await asio::this_coro::executor, name, *last->coding, attribute.record);
  CO_TRY(attribute.record.coding, co_await bytes.coded->seal(attribute));
  if (bytes.coded->degraded()) bytes.file.set_degraded();
  co_return Status();
}

/// The file of a coded object is empty: where a drive fails with it, other holders have the slices,
/// and another drive takes the record.
Task<Status> publish_new(TargetNode& node, const ObjectName& name, NewBytes& bytes,
                         io::ObjectAttribute attribute, std::vector<Located> present,
                         cluster::Durability durability) {
  if (!attribute.record.coding || name.copies > 0)
    co_return co_await node.store.publish(name, bytes.file, std::move(attribute),
                                          std::move(bytes.blocks), std::move(present), durability);
  const Status done =
      co_await node.store.publish(name, bytes.file, attribute, {}, present, durability);
  if (done || bytes.file.drive().usable()) co_return done;
  CO_TRY(const auto other, co_await create_here(node, name, 0));
  attribute.record.file = other->name();
  co_return co_await node.store.publish(name, *other, std::move(attribute), {}, std::move(present),
                                        durability);
}

}  // namespace

Task<Result<io::ObjectRecord>> commit_locked(TargetNode& node, const ObjectRequest& wanted,
                                             const OwnedNames::Write& write, NewBytes bytes,
                                             api::CustomMetadata custom,
                                             const http::RequestHead* conditions) {
  WorkFile& file = bytes.file;
  if (has_write_conditions(conditions)) {
    CO_TRY(const Newest newest, co_await find_newest(node, wanted));
    CO_TRY_OK(check_write_allowed(*conditions, newest, wanted));
  }
  if (bytes.same_as != nullptr && SAFETY("safety.recode_newest")) {
    CO_TRY(const Newest newest, co_await find_newest(node, wanted));
    if (newest.holder != nullptr || !newest.exists() ||
        newest.record->generation != bytes.same_as->generation)
      co_return fail(Errc::conflict, "{} has changed meanwhile", wanted.display());
  }
  const ObjectName name = as_of_now(node, wanted.name);
  CO_TRY(auto present, co_await lookup_for_write(node, name));
  std::optional<io::ObjectRecord> last;
  if (!present.empty()) last = present.front().record;
  if (!has_full_view(node, name)) {
    CO_TRY(const Newest newest, co_await find_newest(node, wanted));
    last = newest.record;
  }
  const auto state = node.view.state();
  const auto* bucket = state->bmd.find(wanted.name.bucket);
  if (bucket == nullptr)
    co_return fail(Errc::bucket_not_found, "bucket \"{}\" does not exist",
                   wanted.bucket.name.display());
  if (bucket->ending) co_return fail(cluster::being_destroyed(bucket->name));
  const auto& kept = bytes.same_as == nullptr ? custom : bytes.same_as->custom;
  if (api::has_upstream(bucket->name) && !comes_from_upstream(kept))
    co_return fail(Errc::unsupported, "{} has an upstream, which must have each object first",
                   wanted.bucket.name.display());
  const auto map_version = write.commit();
  if (!map_version)
    co_return fail(Errc::unavailable, "the lease ended while the body arrived; nothing was stored");

  io::ObjectAttribute attribute;
  attribute.bucket_id = wanted.name.bucket;
  attribute.bucket = wanted.bucket.placed_as();  // a start looks with it where names belong
  attribute.name = wanted.name.object;
  attribute.record.generation = node.next_generation(*map_version);
  attribute.record.file = file.name();
  attribute.record.size = bytes.size;
  attribute.record.xxh64 = bytes.xxh64;
  attribute.record.modified_ns = bytes.modified_ns.value_or(node.clock.wall_time().count());
  attribute.record.custom = std::move(custom);
  if (last) {
    if (last->kind == io::ObjectRecord::Kind::object && wanted.bucket.props.versioning)
      attribute.record.version = last->version + 1;
    if (last->generation >= attribute.record.generation)
      co_return fail(Errc::unavailable,
                     "object {} has a generation from the future: the meta store is older than the "
                     "data. Nothing was stored",
                     wanted.name.object);
  }
  if (bytes.same_as != nullptr) {
    attribute.record.version = bytes.same_as->version;
    attribute.record.modified_ns = bytes.same_as->modified_ns;
    attribute.record.custom = bytes.same_as->custom;
    mark_complete(attribute.record);
  }
  if (bytes.kept != nullptr) attribute.record.coding = *bytes.kept;
  if (bytes.coded != nullptr)
    attribute.record.coding = bytes.coded->planned(attribute.record.generation);
  if (io::encode(attribute).size() > io::kAttributeBytesMax)
    co_return fail(Errc::invalid_argument,
                   "name and custom metadata of {} are too long for a file's attribute of {} bytes",
                   wanted.display(), io::kAttributeBytesMax);
  const bool on_nodes = replica_count_of(node, name.bucket).many();
  if (bytes.coded != nullptr) {
    // Slices of a version that no record names stay until the name is written again.
    if (on_nodes && SAFETY("safety.room_before_seal"))
      CO_TRY_OK(co_await replicas_have_room(node, name, attribute.record));
    CO_TRY_OK(co_await seal_slices(node, name, write, bytes, last, attribute));
  }
  io::ObjectRecord record = attribute.record;
  cluster::Durability durability = wanted.bucket.props.durability;
  if (on_nodes && durability == cluster::Durability::nosync)
    durability = cluster::Durability::full;  // targets rely on what each replica has
  if (on_nodes && SAFETY("safety.copies_first")) {
    const VersionInFlight outbound{attribute, &file, &bytes.blocks, nullptr,
                                   bytes.coded != nullptr};
    CO_TRY(const bool all, co_await replicate(node, name, write, durability, outbound));
    if (!all) file.set_degraded();
  }
  CO_FAIL_POINT("copies.before_own");
  CO_TRY_OK(co_await publish_new(node, name, bytes, std::move(attribute), std::move(present),
                                 durability));
  CO_FAIL_POINT("coded.before_drop");
  const auto now = node.view.state();
  const auto* bucket_now = now->bmd.find(name.bucket);
  if ((bytes.coded != nullptr && bytes.coded->incomplete()) ||
      (bucket_now != nullptr && is_kept_otherwise(bucket_now->props, record)))
    node.repair_requests.add(name.bucket, name.object);
  if (bytes.coded != nullptr)
    bytes.coded->drop_unsure(co_await asio::this_coro::executor, record.generation);
  if (last && last->coding)
    drop_former(node, co_await asio::this_coro::executor, name, *last->coding, record);
  co_return record;
}

Status check_lease_before_reply(const OwnedNames::Write& write) {
  if (!SAFETY("safety.lease_before_reply") || write.may_acknowledge()) return {};
  return fail(Errc::unavailable, "the lease ended during the commit: the outcome is unknown");
}

Result<api::CustomMetadata> custom_metadata_of(const http::RequestHead& head) {
  std::vector<std::string_view> lines;
  for (const http::Field& field : head.fields)
    if (iequals(field.name, "Ais-Custom-Md")) lines.emplace_back(field.value);
  TRY(api::CustomMetadata custom, api::custom_from_lines(lines));
  for (const char* name : {"Content-Type", "Content-Encoding"}) {
    const std::string_view value = head.field(name);
    const bool is_given = std::any_of(custom.begin(), custom.end(),
                                      [&](const auto& pair) { return pair.first == name; });
    if (value.empty() || value == http::kBytes || is_given) continue;
    custom.emplace_back(name, value);
  }
  TRY_OK(api::check_custom_metadata(custom));
  return custom;
}

http::Response stored_response(const io::ObjectRecord& record) {
  http::Response done(200);
  done.set("ETag", record.etag());
  add_checksum_fields(done, record);
  done.set("Ais-Version", std::to_string(record.version))
      .set("Ais-Atime", std::to_string(record.modified_ns));
  return done;
}

}  // namespace tarn::target
