// What happens on a GET at the target: find the record and open its file on the drive's threads,
// answer conditions and ranges from the record, then send the bytes, from memory by sendfile on the
// event loop, else verified block by block by the drive's threads.

#include <algorithm>

#include "common/base/buffer_pool.h"
#include "target/object_fields.h"

namespace tarn::target {
namespace {

using http::ByteRange;
using http::RangeVerdict;

constexpr std::uint64_t kSendBytes = 2U << 20U;  // asked for residency and sent at once

/// Sends part of an object. What is not in memory is read by the drive's threads, the next block
/// while the last one is on its way.
class Sender {
 public:
  Sender(http::Exchange& exchange, OpenObject& object, bool verify_always)
      : exchange_(exchange), object_(object), verify_always_(verify_always) {}
  // The drive's threads may still write into the buffers.
  ~Sender() = default;
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// Brings the first block in, so that a bad one is an error status and not a cut connection.
  Task<Status> prepare(ByteRange range) {
    if (range.length == 0 || may_send(range.offset, std::min(range.length, kSendBytes)))
      co_return Status();
    ahead_block_ = range.offset / kBlockBytes;
    ahead_ = PooledBuffer(PooledBuffer::kBlockBytes);
    CO_TRY(ahead_bytes_, co_await object_.read_block(ahead_block_, ahead_.span()));
    co_return Status();
  }

  Task<Status> send(ByteRange range) {
    std::uint64_t at = range.offset;
    const std::uint64_t end = range.offset + range.length;
    while (at < end) {
      const std::uint64_t piece = std::min(end - at, kSendBytes);
      if (!ahead_.valid() && may_send(at, piece)) {
        const ResidentCheck check{object_};
        CO_TRY(const std::uint64_t sent,
               co_await exchange_.send_file(object_.fd(), at, piece, check));
        at += sent;
        continue;
      }
      CO_TRY(at, co_await send_block(at, end));
    }
    co_return Status();
  }

 private:
  /// Asked again whenever the client made us wait: pages may have been dropped meanwhile.
  struct ResidentCheck {
    OpenObject& object;
    bool operator()(std::uint64_t offset, std::uint64_t bytes) const {
      return object.may_send(offset, bytes);
    }
  };

  [[nodiscard]] bool may_send(std::uint64_t offset, std::uint64_t bytes) const {
    return !verify_always_ && object_.may_send(offset, bytes);
  }

  /// Sends what [at, end) has of the block that `at` is in, from a verified buffer. Returns where
  /// to go on.
  Task<Result<std::uint64_t>> send_block(std::uint64_t at, std::uint64_t end) {
    const std::uint64_t block = at / kBlockBytes;
    PooledBuffer buffer;
    std::size_t bytes = 0;
    if (ahead_.valid() && ahead_block_ == block) {
      buffer = std::exchange(ahead_, PooledBuffer());
      bytes = ahead_bytes_;
    } else {
      ahead_ = PooledBuffer();
      buffer = PooledBuffer(PooledBuffer::kBlockBytes);
      CO_TRY(bytes, co_await object_.read_block(block, buffer.span()));
    }
    const std::uint64_t start = block * kBlockBytes;
    const std::uint64_t stop = std::min(end, start + bytes);
    // The next block comes in while this one leaves.
    io::DriveThreads::Pending<Result<std::size_t>> next;
    PooledBuffer next_buffer;
    const bool more = stop < end && !may_send(stop, std::min(end - stop, kSendBytes));
    if (more) {
      next_buffer = PooledBuffer(PooledBuffer::kBlockBytes);
      next = object_.start_read_block(block + 1, next_buffer.span());
    }
    const Status sent = co_await exchange_.write(
        std::span<const std::byte>(buffer.span()).subspan(at - start, stop - at));
    if (more) {
      // Awaited also after a failed write: the drive's threads write into the buffer.
      const auto got = co_await next.get();
      CO_TRY_OK(sent);
      CO_TRY(ahead_bytes_, got);
      ahead_ = std::move(next_buffer);
      ahead_block_ = block + 1;
    }
    CO_TRY_OK(sent);
    co_return stop;
  }

  http::Exchange& exchange_;
  OpenObject& object_;
  bool verify_always_;
  PooledBuffer ahead_;
  std::uint64_t ahead_block_ = 0;
  std::size_t ahead_bytes_ = 0;
};

Task<Status> send_object(TargetNode& node, http::Request& request, const ObjectRequest& wanted,
                         OpenObject& object) {
  const io::ObjectRecord& record = object.record();
  const auto& head = request.head();
  ByteRange range{0, record.size};
  http::Response response(200);
  if (!head.field("Range").empty() &&
      http::range_applies(head, record.etag(), modified_seconds(record))) {
    auto [verdict, part] = http::resolve_range(head.field("Range"), record.size);
    // AIStore's paths refuse several ranges; for plain ones the proxy asks for the whole.
    if (verdict == RangeVerdict::multiple && request.query().get("multirange") == "whole")
      verdict = RangeVerdict::whole;
    if (verdict == RangeVerdict::unsatisfiable || verdict == RangeVerdict::multiple) {
      co_return co_await request.exchange.respond(
          range_refusal(node, request, record, verdict == RangeVerdict::multiple));
    }
    if (verdict == RangeVerdict::partial) {
      range = part;
      response.status = 206;
      response.set("Content-Range", fmt::format("bytes {}-{}/{}", part.offset,
                                                part.offset + part.length - 1, record.size));
    }
  }
  add_object_fields(response, wanted, record);
  Sender sender(request.exchange, object, node.verify_always);
  CO_TRY_OK(co_await sender.prepare(range));
  CO_TRY_OK(co_await request.exchange.begin(std::move(response), range.length));
  CO_TRY_OK(co_await sender.send(range));
  co_return co_await request.exchange.finish();
}

}  // namespace

Task<Status> get_object(TargetNode& node, http::Request& request) {
  CO_TRY(const ObjectRequest wanted, co_await admit_read(node, request));
  const auto object = co_await node.store.open_object(wanted.name);
  if (!object) {
    if (object.error().code == Errc::corrupt)
      co_return fail(Errc::corrupt, "{}: {}", wanted.display(), object.error().message);
    co_return fail(object.error());
  }
  if (!*object) co_return fail(object_missing(wanted));
  OpenObject& found = **object;
  CO_TRY(auto unchanged, judge_conditions(request.head(), wanted, found.record()));
  if (unchanged) co_return co_await request.exchange.respond(std::move(*unchanged));
  auto sent = co_await send_object(node, request, wanted, found);
  if (!sent && sent.error().code == Errc::corrupt)
    co_return fail(Errc::corrupt, "{}: {}", wanted.display(), sent.error().message);
  co_return sent;
}

}  // namespace tarn::target
