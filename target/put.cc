// What happens on a PUT at the target: check what the proxy announced, stream the body into a work
// file while hashing it, then, under the name's lock, check all that must hold and publish
// (publish.cc has the order of the commit). Nothing is acknowledged
// before it is durable, unless the bucket asks for that.

#include <array>

#include "common/base/buffer_pool.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/hash.h"
#include "common/obs/log.h"
#include "target/body_checksums.h"
#include "target/node.h"

namespace tarn::target {
namespace {

/// What has been computed over a body while it was in the cache.
struct Digests {
  Xxh64Stream whole;
  std::vector<std::uint32_t> blocks;  ///< CRC32C of every MiB
  std::uint64_t size = 0;

  void update(std::span<const std::byte> bytes) {
    whole.update(bytes);
    while (!bytes.empty()) {
      const std::size_t room = kBlockBytes - size % kBlockBytes;
      const auto piece = bytes.first(std::min(room, bytes.size()));
      if (size % kBlockBytes == 0) blocks.push_back(0);
      blocks.back() = crc32c(piece, blocks.back());
      size += piece.size();
      bytes = bytes.subspan(piece.size());
    }
  }
};

/// What the redirect said about the body must be what is sent: clients lose bodies in redirects.
Status check_announced_length(const http::RequestHead& head, const security::RedirectClaim& claim) {
  if (!SAFETY("safety.redirect_length")) return {};
  if (head.chunked && claim.length == security::kRelayedLength) return {};
  const std::string sent = head.chunked          ? std::string(security::kChunkedLength)
                           : head.content_length ? std::to_string(*head.content_length)
                                                 : "none";
  if (sent == claim.length) return {};
  return fail(
      Errc::invalid_argument,
      "body lost in a redirect: {} bytes were announced to the proxy, {} are announced here. "
      "Your HTTP client does not send the body again; use the relay listener",
      claim.length, sent);
}

/// A generator that the proxy saw as chunks and that the client could not send again arrives empty.
Status check_not_lost(const security::RedirectClaim& claim, std::uint64_t size) {
  if (!SAFETY("safety.redirect_length")) return {};
  if (claim.length != security::kChunkedLength || size > 0) return {};
  return fail(Errc::invalid_argument,
              "body lost in a redirect: chunks were announced to the proxy, none came here. For an "
              "empty object send Content-Length: 0, or use the relay listener");
}

Status check_write_allowed(const http::RequestHead& head, const std::vector<Located>& present,
                           const ObjectRequest& wanted) {
  const bool there =
      !present.empty() && present.front().record.kind == io::ObjectRecord::Kind::object;
  const std::string etag = there ? present.front().record.etag() : std::string();
  if (http::check_write_conditions(head, etag) == http::Condition::proceed) return {};
  return fail(Errc::precondition_failed, "{}/{} {}", wanted.bucket.name.display(),
              wanted.name.object, there ? "is now " + etag : "does not exist");
}

/// Reads until `into` is full or the body ends.
Task<Result<std::size_t>> fill(http::Exchange& exchange, std::span<std::byte> into) {
  std::size_t have = 0;
  while (have < into.size()) {
    CO_TRY(const std::size_t got, co_await exchange.read_some(into.subspan(have)));
    if (got == 0) break;
    have += got;
  }
  co_return have;
}

/// Streams the body into `file`. While the drive writes one piece, the next is received.
Task<Status> receive_body(http::Exchange& exchange, WorkFile& file, Digests& digests,
                          BodyChecksums& announced) {
  std::array<PooledBuffer, 2> buffers{PooledBuffer(PooledBuffer::kSmallBytes),
                                      PooledBuffer(PooledBuffer::kSmallBytes)};
  io::DriveThreads::Pending<Status> writing;
  Status result;
  for (std::size_t turn = 0;; turn ^= 1U) {
    const auto buffer = buffers[turn].span();
    const auto got = co_await fill(exchange, buffer);
    if (writing.valid()) {
      auto written = co_await writing.get();
      if (!written) result = std::move(written);
    }
    if (!got && result) result = fail(got.error());
    if (!result || *got == 0) co_return result;
    const auto piece = buffer.first(*got);
    digests.update(piece);
    announced.update(piece);
    writing = file.drive().write(file, piece, digests.size - *got);
  }
}

/// Runs under the name's lock.
Task<Result<io::ObjectRecord>> commit(TargetNode& node, http::Request& request,
                                      const ObjectRequest& wanted, WorkFile& file,
                                      Digests& digests) {
  CO_TRY(auto present, co_await node.store.find_all(wanted.name));
  CO_TRY_OK(check_write_allowed(request.head(), present, wanted));
  const auto state = node.view.state();
  if (state->bmd.find(wanted.name.bucket) == nullptr)
    co_return fail(Errc::bucket_not_found, "bucket \"{}\" does not exist",
                   wanted.bucket.name.display());
  if (!node.membership.lease().valid())
    co_return fail(Errc::unavailable, "the lease ended while the body arrived; nothing was stored");

  io::ObjectAttribute attribute;
  attribute.bucket_id = wanted.name.bucket;
  attribute.bucket = wanted.bucket.name;
  attribute.name = wanted.name.object;
  attribute.record.generation = node.next_generation(*state);
  attribute.record.file = file.name();
  attribute.record.size = digests.size;
  attribute.record.xxh64 = digests.whole.digest();
  attribute.record.modified_ns = node.clock.wall_time().count();
  if (!present.empty()) {
    const io::ObjectRecord& last = present.front().record;
    if (last.kind == io::ObjectRecord::Kind::object && wanted.bucket.props.versioning)
      attribute.record.version = last.version + 1;
    if (last.generation >= attribute.record.generation)
      co_return fail(Errc::unavailable,
                     "object {} has a generation from the future: the meta store is older than the "
                     "data. Nothing was stored",
                     wanted.name.object);
  }
  io::ObjectRecord record = attribute.record;
  CO_TRY_OK(co_await node.store.publish(wanted.name, file, std::move(attribute),
                                        std::move(digests.blocks), std::move(present),
                                        wanted.bucket.props.durability));
  co_return record;
}

Task<Result<io::ObjectRecord>> store_body(TargetNode& node, http::Request& request,
                                          const ObjectRequest& wanted) {
  const auto& head = request.head();
  CO_TRY(BodyChecksums announced, BodyChecksums::from(head));
  CO_TRY(auto file, co_await node.store.create(wanted.name, head.content_length));
  Digests digests;
  CO_TRY_OK(co_await receive_body(request.exchange, *file, digests, announced));
  CO_TRY_OK(check_not_lost(*wanted.claim, digests.size));
  CO_TRY_OK(announced.check(digests.whole.digest()));
  const auto held = co_await node.store.locks().acquire(wanted.name.uname);
  co_return co_await commit(node, request, wanted, *file, digests);
}

}  // namespace

Task<Status> put_object(TargetNode& node, http::Request& request) {
  const auto& head = request.head();
  if (!head.content_length && !head.chunked)
    co_return fail(Errc::length_required, "a PUT needs a Content-Length or chunks");
  CO_TRY(const ObjectRequest wanted, co_await admit_write(node, request));
  CO_TRY_OK(check_announced_length(head, *wanted.claim));
  if (!head.field("If-Match").empty() || !head.field("If-None-Match").empty()) {
    // Before the body travels; checked again under the lock.
    CO_TRY(const auto present, co_await node.store.find_all(wanted.name));
    CO_TRY_OK(check_write_allowed(head, present, wanted));
  }
  CO_TRY(const io::ObjectRecord record, co_await store_body(node, request, wanted));
  CO_FAIL_POINT("put.before_reply");
  if (SAFETY("safety.lease_before_reply") && !node.membership.lease().valid())
    co_return fail(Errc::unavailable, "the lease ended during the commit: the outcome is unknown");
  obs::log("target").debug("put done req={} bucket={} object={} bytes={}",
                           request.exchange.request_id(), wanted.bucket.name.name,
                           wanted.name.object, record.size);
  http::Response done(200);
  done.set("ETag", record.etag())
      .set("Ais-Checksum-Type", "xxhash2")
      .set("Ais-Checksum-Value", hex64(record.xxh64))
      .set("Ais-Version", std::to_string(record.version))
      .set("Ais-Atime", std::to_string(record.modified_ns));
  co_return co_await request.exchange.respond(std::move(done));
}

}  // namespace tarn::target
