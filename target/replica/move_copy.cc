#include "target/replica/move_copy.h"

#include <array>

#include <nlohmann/json.hpp>

#include "common/api/status.h"
#include "common/base/buffer_pool.h"
#include "common/base/check.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "target/drive/block_reader.h"
#include "target/node/node_call.h"
#include "target/replica/move_format.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

constexpr std::size_t kMoveCopyAnswerBytes = 4096;

Error lost(const Receiver& to, const Error& cause) {
  return {Errc::disconnected,
          fmt::format("target t[{}] did not answer: {}", to.node.id, cause.message)};
}

/// Sends the blocks until all are through or the receiver has answered.
Task<Status> move_copy_send_blocks(http::ClientStream& stream, OpenObject& from, const Toll& toll) {
  const PooledBuffer buffer(PooledBuffer::kBlockBytes);
  BlockReader blocks(from, toll ? TurnFor::background : TurnFor::client);
  for (std::uint64_t block = 0; !stream.answer_ready(); ++block) {
    const auto bytes = std::min(kBlockBytes, from.file_bytes() - block * kBlockBytes);
    if (toll) CO_TRY_OK(co_await toll(bytes));
    CO_FAIL_POINT("move.block");
    CO_TRY(const std::size_t got, co_await blocks.next(buffer.span()));
    if (got == 0) break;
    TARN_CHECK(from.has_checksum(block));
    const auto checksum = little_endian(from.checksum(block));
    Status sent = co_await stream.write(std::as_bytes(std::span(checksum)));
    if (sent) sent = co_await stream.write(buffer.span().first(got));
    if (!sent) co_return Status();  // the receiver may have sent why: see its answer
    if ((block + 1) * kBlockBytes >= from.file_bytes()) break;
  }
  co_return Status();
}

}  // namespace

Task<Result<std::vector<std::size_t>>> offer_names(TargetNode& node, const Receiver& to,
                                                   Offer offer) {
  CO_TRY(http::Url address, http::parse_url(to.node.internal_url));
  offer.map_version = to.map_version;
  offer.bmd_version = to.bmd_version;
  auto request = signed_call(node, http::Method::post, kOfferPath);
  request.body = encode(offer);
  // Looking up a thousand names may take a while on a drive that other work keeps busy.
  auto answer = co_await node.client.call(std::move(address), std::move(request),
                                          {.total = std::chrono::seconds(60)});
  if (!answer) co_return fail(lost(to, answer.error()));
  if (answer->status != 200)
    co_return fail(api::errc_of_answer(answer->status, answer->body), "target t[{}]: {}",
                   to.node.id, api::error_message_of(answer->body));
  co_return decode_wanted(answer->body, offer.names.size());
}

Task<Result<std::optional<Outgoing>>> open_outgoing(TargetNode& node, ObjectName name,
                                                    const cluster::BucketRecord& bucket) {
  CO_TRY(const auto found, co_await node.store.find_all(name));
  if (found.empty()) co_return std::nullopt;
  Outgoing out{{name.bucket, bucket.placed_as(), name.object, found.front().record}, nullptr};
  if (out.attribute.record.kind == io::ObjectRecord::Kind::object) {
    CO_TRY(out.object, co_await node.store.open_object(name));
    if (!out.object) co_return std::nullopt;
    out.attribute.record = out.object->record();
  }
  if (!pending_by(out.attribute.record).empty())
    co_return fail(Errc::unavailable, "{} is being changed", name.object);
  co_return std::optional(std::move(out));
}

Task<Result<bool>> send_copy(TargetNode& node, const Receiver& to, io::ObjectAttribute attribute,
                             OpenObject* from, SendCopy how) {
  CO_FAIL_POINT("move.send");
  CO_TRY(http::Url address, http::parse_url(to.node.internal_url));
  const std::string prelude = copy_prelude(attribute);
  auto request = signed_call(node, http::Method::put,
                             fmt::format("{}?map={}&bmd={}{}", kCopyPath, to.map_version,
                                         to.bmd_version, how.anew ? "&anew=1" : ""));
  const std::uint64_t size = from == nullptr ? 0 : from->file_bytes();
  // The receiver takes as many bytes as are in the record.
  TARN_CHECK(from == nullptr || attribute.record.file_bytes() == size);
  auto opened = co_await node.client.open(std::move(address), std::move(request),
                                          copy_length(prelude, size), transfer_limits(size));
  if (!opened) co_return fail(lost(to, opened.error()));
  http::ClientStream stream = std::move(*opened);
  const Status begun = co_await stream.write(std::as_bytes(std::span(prelude)));
  if (begun && size > 0) CO_TRY_OK(co_await move_copy_send_blocks(stream, *from, how.toll));
  if (!stream.answer_ready()) static_cast<void>(co_await stream.finish());
  const auto answer = co_await stream.read_head();
  if (!answer) co_return fail(lost(to, answer.error()));
  const std::string text = co_await read_text(stream, kMoveCopyAnswerBytes);
  if (answer->status == 200)
    co_return nlohmann::json::parse(text, nullptr, false) == nlohmann::json{{"stored", true}};
  co_return fail(api::errc_of_answer(answer->status, text), "target t[{}]: {}", to.node.id,
                 api::error_message_of(text));
}

}  // namespace tarn::target
