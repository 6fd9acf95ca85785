// Pieces of coded objects that come from, and go to, other targets (piece_format.h).

#include "target/coded/piece_requests.h"

#include <nlohmann/json.hpp>

#include "common/base/fail_point.h"
#include "target/coded/piece_home.h"
#include "target/coded/piece_judge.h"
#include "target/drive/block_writer.h"
#include "target/node/bodies.h"
#include "target/node/rebuild_pace.h"
#include "target/node/sender.h"

namespace tarn::target {
namespace {

/// Waits until this target knows the state of the cluster by which the caller acts.
Task<Status> piece_requests_catch_up(TargetNode& node, const http::Request& request) {
  CO_TRY(const AsOf when, as_of(request.query()));
  CO_TRY(const auto state, co_await node.view.at_least(when.map_version, when.bmd_version));
  co_return Status();
}

/// Each block is looked at before it is written: what the network did to it is not sealed.
Task<Status> receive_slice(http::Exchange& exchange, const PieceWrite& write, WrittenPiece& into) {
  const ec::SliceId slice{ec::SetId(write.key.set), write.geometry, write.key.index};
  std::uint64_t stripe = 0;
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): outlives write_from()
  const auto next = [&](std::span<std::byte> room) -> Task<Result<std::size_t>> {
    CO_TRY(const std::size_t got, co_await read_full(exchange, room));
    for (auto rest = room.first(got); !rest.empty(); ++stripe) {
      const auto block = rest.first(std::min(write.geometry.block_bytes, rest.size()));
      if (const Status good = ec::check_block(block, slice, stripe); !good)
        co_return fail(Errc::checksum_mismatch, "{}", good.error().message);
      rest = rest.subspan(block.size());
    }
    co_return got;
  };
  CO_TRY(into.bytes, co_await write_from(into.piece->file(), 0, next));
  co_return Status();
}

Task<Status> receive_whole(http::Exchange& exchange, WrittenPiece& into) {
  into.digests.emplace();
  const auto next = [&](std::span<std::byte> room) { return read_full(exchange, room); };
  CO_TRY_OK(co_await write_chunks(into.piece->file(), *into.digests, next));
  into.bytes = into.digests->size();
  co_return Status();
}

}  // namespace

Task<Status> write_piece(TargetNode& node, http::Request& request) {
  CO_TRY(const PieceWrite write, piece_write_of(request.query()));
  CO_TRY_OK(co_await piece_requests_catch_up(node, request));
  CO_TRY_OK(check_memory());
  WrittenPiece written;
  CO_TRY(written.piece, co_await begin_piece(node, write));
  if (write.key.index == io::kWhole) {
    CO_TRY_OK(co_await receive_whole(request.exchange, written));
  } else {
    CO_TRY_OK(co_await receive_slice(request.exchange, write, written));
  }
  const std::uint64_t bytes = written.bytes;
  CO_FAIL_POINT("piece.written");
  CO_TRY_OK(keep_piece(node, write.token, std::move(written)));
  co_return co_await request.exchange.respond(
      http::Response(200, http::kJson, nlohmann::json{{"bytes", bytes}}.dump()));
}

Task<Status> seal_written_piece(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kPieceSealBytesMax));
  CO_TRY(PieceSeal seal, piece_seal_of(request.query(), body));
  CO_TRY_OK(co_await piece_requests_catch_up(node, request));
  CO_TRY_OK(co_await seal_piece(node, std::move(seal)));
  co_return co_await request.exchange.respond(http::Response(200));
}

Task<Status> abandon_piece(TargetNode& node, http::Request& request) {
  CO_TRY(const PieceToken token, piece_token_of(request.query()));
  static_cast<void>(node.open_pieces.take(token));
  co_return co_await request.exchange.respond(http::Response(200));
}

Task<Status> read_piece(TargetNode& node, http::Request& request) {
  CO_TRY(const PieceRead read, piece_read_of(request.query()));
  CO_TRY_OK(co_await piece_requests_catch_up(node, request));
  auto opened = co_await node.store.pieces().open(read.key, read.unless_slow);
  if (!opened) {
    note_if_bad(node, read.key, opened.error());
    co_return fail(opened.error());
  }
  auto piece = std::move(*opened);
  const std::uint64_t all = piece->file_bytes();
  const auto [offset, bytes] = read.range;
  if (bytes > all || offset > all - bytes)
    co_return fail(Errc::range_not_satisfiable, "piece {} of {} has {} bytes", read.key.index,
                   read.key.name, all);
  const Drive* const drive = &piece->drive();
  Sender sender(request.exchange, std::move(piece), {offset, bytes}, node.verify_always);
  std::optional<ServingClient> serving;  // another target serves him, out of this piece too
  if (read.purpose == TurnFor::background)
    sender.set_toll(
        [&node, drive](std::uint64_t passing) { return pass_read(node, drive, passing); });
  else
    serving.emplace(node);
  Status sent = co_await sender.begin(http::Response(200));
  if (sent && !sender.done()) sent = co_await sender.send();
  if (!sent) note_if_bad(node, read.key, sent.error());
  CO_TRY_OK(sent);
  co_return co_await request.exchange.finish();
}

Task<Status> drop_piece(TargetNode& node, http::Request& request) {
  CO_TRY(PieceDrop drop, piece_drop_of(request.query()));
  CO_TRY_OK(co_await piece_requests_catch_up(node, request));
  drop_piece_later(node, std::move(drop));
  co_return co_await request.exchange.respond(http::Response(200));
}

Task<Status> tell_pieces(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kPiecesBytesMax));
  CO_TRY(auto keys, piece_keys_of(body));
  CO_TRY_OK(co_await piece_requests_catch_up(node, request));
  const auto seen = co_await states_here(node, std::move(keys));
  co_return co_await request.exchange.respond(
      http::Response(200, "application/msgpack", to_body(std::span(seen))));
}

Task<Status> judge_pieces(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kPiecesBytesMax));
  CO_TRY(auto pieces, held_pieces_of(body));
  CO_TRY_OK(co_await piece_requests_catch_up(node, request));
  std::string home(security::NodeAuth::node_of(request.head().field(security::NodeAuth::kHeader)));
  const auto verdicts = co_await judge(node, std::move(home), std::move(pieces));
  co_return co_await request.exchange.respond(
      http::Response(200, "application/msgpack", to_body(std::span(verdicts))));
}

Task<Status> hear_of_bad_piece(TargetNode& node, http::Request& request) {
  CO_TRY(const PieceKey key, piece_key_of(request.query()));
  node.repair_requests.add(key.bucket, key.name);
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace tarn::target
