#include "target/incoming.h"

#include <array>

#include "common/base/buffer_pool.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/memory_limit.h"
#include "target/away_drive.h"
#include "target/block_reader.h"
#include "target/node_copies.h"

namespace tarn::target {
namespace {

/// Reads until `into` is full or the body ends, and shows `see` each piece while it is hot.
template <class See>
Task<Result<std::size_t>> fill(http::Exchange& exchange, std::span<std::byte> into,
                               const See& see) {
  std::size_t have = 0;
  while (have < into.size()) {
    CO_TRY(const std::size_t got, co_await exchange.read_some(into.subspan(have)));
    if (got == 0) break;
    see(into.subspan(have, got));
    have += got;
  }
  co_return have;
}

/// Of a mirrored name what can be seen, and of one whose drive is away what the others have.
Task<Result<std::vector<Located>>> seen_by_writer(TargetNode& node, ObjectName name) {
  if (name.copies > 0) co_return co_await node.store.find_seen(std::move(name));
  co_return co_await find_here(node, std::move(name));
}

bool names_a_version(const http::RequestHead& head) {
  return !head.field("If-Match").empty() || !head.field("If-None-Match").empty();
}

}  // namespace

/// Bodies under way may hold a quarter of the memory that this process may fill: the rest is for
/// the index, the kernel's part of connections, and pages.
Status check_memory() {
  static const std::uint64_t allowed = memory_limit() / 4;
  const std::uint64_t held = PooledBuffer::bytes_in_use();
  if (held + 2 * PooledBuffer::kSmallBytes <= allowed) return {};
  return fail(Errc::unavailable,
              "bodies that are under way hold {} bytes of memory, and may hold {}; try again", held,
              allowed);
}

Status check_announced_length(const http::RequestHead& head, const security::RedirectClaim& claim) {
  if (!SAFETY("safety.redirect_length")) return {};
  if (head.chunked && claim.length == security::kRelayedLength) return {};
  std::string sent = head.chunked          ? std::string(security::kChunkedLength)
                     : head.content_length ? std::to_string(*head.content_length)
                                           : "none";
  // Other verbs than PUT may come without body, said or unsaid.
  if (head.method != http::Method::put && !head.has_body()) sent = "";
  if (sent == claim.length) return {};
  return fail(
      Errc::invalid_argument,
      "body lost in a redirect: {} bytes were announced to the proxy, {} are announced here. "
      "Your HTTP client does not send the body again; use the relay listener",
      claim.length.empty() ? "no" : claim.length, sent.empty() ? "none" : sent);
}

Task<Status> receive_body(http::Exchange& exchange, WorkFile& file, Digests& digests,
                          BodyChecksums& announced, Xxh64Stream* part) {
  CO_TRY_OK(check_memory());
  std::array<PooledBuffer, 2> buffers{PooledBuffer(PooledBuffer::kSmallBytes),
                                      PooledBuffer(PooledBuffer::kSmallBytes)};
  io::DriveThreads::Pending<Status> writing;
  const auto see = [&](std::span<const std::byte> piece) {
    digests.update(piece);
    announced.update(piece);
    if (part != nullptr) part->update(piece);
  };
  Status result;
  for (std::size_t turn = 0;; turn ^= 1U) {
    const auto buffer = buffers[turn].span();
    const auto got = co_await fill(exchange, buffer, see);
    if (writing.valid()) {
      auto written = co_await writing.get();
      if (written) written = co_await file.drive().room(file);
      if (!written) result = std::move(written);
    }
    if (!got && result) result = fail(got.error());
    if (!result || *got == 0) co_return result;
    writing = file.drive().write(file, buffer.first(*got), digests.size() - *got);
  }
}

Task<Status> write_pieces(WorkFile& file, Digests& digests, NextPiece next) {
  std::array<PooledBuffer, 2> buffers{PooledBuffer(PooledBuffer::kBlockBytes),
                                      PooledBuffer(PooledBuffer::kBlockBytes)};
  io::DriveThreads::Pending<Status> writing;
  Status result;
  for (std::size_t turn = 0;; turn ^= 1U) {
    const auto buffer = buffers[turn].span();
    const auto got = co_await next(buffer);
    if (writing.valid()) result = co_await writing.get();
    if (result) result = co_await file.drive().room(file);
    if (!got && result) result = fail(got.error());
    if (!result || *got == 0) co_return result;
    const auto piece = buffer.first(*got);
    digests.update(piece);
    writing = file.drive().write(file, piece, digests.size() - *got);
  }
}

Task<Status> copy_bytes(OpenObject& from, WorkFile& file, Digests& digests, std::stop_token stop) {
  BlockReader blocks(from);
  const auto next = [&](std::span<std::byte> into) -> Task<Result<std::size_t>> {
    if (stop.stop_requested()) co_return fail(Errc::cancelled, "the copy was told to stop");
    co_return co_await blocks.next(into);
  };
  co_return co_await write_pieces(file, digests, next);
}

Status check_write_allowed(const http::RequestHead& head, const Newest& newest,
                           const ObjectRequest& wanted) {
  const bool there = newest.exists();
  const std::string etag = there ? newest.record->etag() : std::string();
  if (http::check_write_conditions(head, etag) == http::Condition::proceed) return {};
  return fail(Errc::precondition_failed, "{} {}", wanted.display(),
              there ? "is now " + etag : "does not exist");
}

Task<Status> check_before_body(TargetNode& node, const http::RequestHead& head,
                               const ObjectRequest& wanted) {
  if (!names_a_version(head)) co_return Status();
  CO_TRY(const Newest newest, co_await find_settled(node, wanted));
  co_return check_write_allowed(head, newest, wanted);
}

Task<Result<io::ObjectRecord>> commit_file(TargetNode& node, const ObjectRequest& wanted,
                                           const OwnedNames::Write& write, WorkFile& file,
                                           const Digests& digests, api::CustomMetadata custom,
                                           const http::RequestHead* conditions) {
  // Without the lock, which that needs.
  CO_TRY_OK(co_await settle_copies(node, wanted.name));
  // What others hold unsettled is given to this node as well.
  if (!sees_all(node, wanted.name)) CO_TRY_OK(co_await find_settled(node, wanted));
  const auto held = co_await node.store.locks().acquire(wanted.name.key());
  co_return co_await commit_locked(node, wanted, write, file, digests, std::move(custom),
                                   conditions);
}

Task<Result<io::ObjectRecord>> commit_locked(TargetNode& node, const ObjectRequest& wanted,
                                             const OwnedNames::Write& write, WorkFile& file,
                                             const Digests& digests, api::CustomMetadata custom,
                                             const http::RequestHead* conditions) {
  if (conditions != nullptr && names_a_version(*conditions)) {
    CO_TRY(const Newest newest, co_await find_newest(node, wanted));
    CO_TRY_OK(check_write_allowed(*conditions, newest, wanted));
  }
  const ObjectName name = as_of_now(node, wanted.name);
  CO_TRY(auto present, co_await seen_by_writer(node, name));
  std::optional<io::ObjectRecord> last;
  if (!present.empty()) last = present.front().record;
  if (!sees_all(node, name)) {
    CO_TRY(const Newest newest, co_await find_newest(node, wanted));
    last = newest.record;
  }
  const auto state = node.view.state();
  const auto* bucket = state->bmd.find(wanted.name.bucket);
  if (bucket == nullptr)
    co_return fail(Errc::bucket_not_found, "bucket \"{}\" does not exist",
                   wanted.bucket.name.display());
  if (bucket->ending) co_return fail(cluster::being_destroyed(bucket->name));
  const auto map_version = write.commit();
  if (!map_version)
    co_return fail(Errc::unavailable, "the lease ended while the body arrived; nothing was stored");

  io::ObjectAttribute attribute;
  attribute.bucket_id = wanted.name.bucket;
  attribute.bucket = wanted.bucket.placed_as();  // a start looks with it where names belong
  attribute.name = wanted.name.object;
  attribute.record.generation = node.next_generation(*map_version);
  attribute.record.file = file.name();
  attribute.record.size = digests.size();
  attribute.record.xxh64 = digests.xxh64();
  attribute.record.modified_ns = node.clock.wall_time().count();
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
  if (io::encode(attribute).size() > io::kAttributeBytesMax)
    co_return fail(Errc::invalid_argument,
                   "name and custom metadata of {} are too long for a file's attribute of {} bytes",
                   wanted.display(), io::kAttributeBytesMax);
  io::ObjectRecord record = attribute.record;
  const bool on_nodes = pieces_of(node, name.bucket).many();
  cluster::Durability durability = wanted.bucket.props.durability;
  if (on_nodes && durability == cluster::Durability::nosync)
    durability = cluster::Durability::full;  // others rely on what each home has
  if (on_nodes && SAFETY("safety.copies_first")) {
    const std::vector<std::uint32_t> sums = digests.blocks();
    const Piece piece{attribute, &file, &sums, nullptr};
    CO_TRY(const bool all, co_await give_to_homes(node, name, durability, piece));
    if (!all) file.set_degraded();
  }
  CO_FAIL_POINT("copies.before_own");
  CO_TRY_OK(co_await node.store.publish(name, file, std::move(attribute), digests.blocks(),
                                        std::move(present), durability));
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
  return api::custom_from_lines(lines);
}

http::Response stored_response(const io::ObjectRecord& record) {
  http::Response done(200);
  done.set("ETag", record.etag())
      .set("Ais-Checksum-Type", "xxhash2")
      .set("Ais-Checksum-Value", hex64(record.xxh64))
      .set("Ais-Version", std::to_string(record.version))
      .set("Ais-Atime", std::to_string(record.modified_ns));
  return done;
}

}  // namespace tarn::target
