#include "target/coded/piece_home.h"

#include <algorithm>
#include <set>

#include <boost/asio/steady_timer.hpp>

#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/obs/log.h"
#include "target/coded/piece_calls.h"
#include "target/node/bad_pieces.h"
#include "target/node/unless_hung.h"

namespace tarn::target {
namespace {

constexpr std::chrono::seconds kPieceHomeLookEvery{5};
constexpr std::size_t kDropsSideBySide = 4;
/// A piece waits so long for room, and its writer with it.
constexpr std::chrono::seconds kPieceRoomPatience{3};

std::set<std::string> drives_away(const ObjectStore& store) {
  std::set<std::string> out;
  for (const auto& [path, why] : store.missing()) out.insert(path);
  for (const auto& drive : store.drives())
    if (!drive->in_service()) out.insert(drive->path());
  return out;
}

/// Of a piece that is not here: with a drive that is away, also since just now, it may come back.
PieceSeen absent_here(TargetNode& node) {
  const BootTime now = node.clock.boot_time();
  node.drives_away.learn(drives_away(node.store), now);
  return {node.drives_away.any_expected(now) ? PieceState::waiting : PieceState::missing};
}

/// Another number when a drive was opened of which files were gone, or unreadable: owners look what
/// is missing of their objects. 0: there is none.
std::uint64_t lost_at_opening(const ObjectStore& store) {
  std::uint64_t out = 0;
  for (const auto& drive : store.drives()) {
    const RecoveryReport& report = drive->recovery();
    if (report.lost_records + report.torn_files + report.unreadable_files > 0)
      out ^= cluster::placement_digest(drive->id());
  }
  return out;
}

Result<cluster::BucketRecord> bucket_of(const TargetNode& node, BucketId id) {
  const auto state = node.view.state();
  const auto* bucket = state->bmd.find(id);
  if (bucket != nullptr) return *bucket;
  return fail(Errc::bucket_not_found, "bucket {} does not exist (any more)", raw(id));
}

/// The flags of this target, as the newest map that it knows has them.
std::uint64_t own_flags(const TargetNode& node) {
  const auto state = node.view.state();
  const cluster::Node* self = state->map.find(node.id);
  return self == nullptr ? 0 : self->flags;
}

bool leaves(std::uint64_t flags) {
  return (flags & (cluster::kMaintenance | cluster::kDecommission)) != 0;
}

/// So that all pieces are away some time.
Status check_stays(const TargetNode& node) {
  if (!leaves(own_flags(node))) return {};
  return fail(Errc::unavailable, "this target is put aside or leaves: it takes no pieces");
}

Task<Result<Drive::Sealed>> seal_written(TargetNode& node, WrittenPiece written,
                                         Drive::SealOrder order) {
  co_return co_await node.store.pieces().seal(*written.piece, std::move(order));
}

/// A place for a piece, after an eviction where no drive has room.
Task<Result<std::unique_ptr<NewPiece>>> create_with_room(TargetNode& node, ObjectName name,
                                                         const PieceKey& key,
                                                         const PiecesHere::Wanted& wanted) {
  auto piece = co_await node.store.pieces().create(name, key, wanted);
  if (piece || piece.error().code != Errc::no_space || node.room == nullptr) co_return piece;
  const auto until = std::chrono::steady_clock::now() + kPieceRoomPatience;
  const bool made = co_await node.room->make_room(name, wanted.bytes.value_or(0), until);
  if (!made) co_return piece;
  co_return co_await node.store.pieces().create(std::move(name), key, wanted);
}

/// One of some that drop the same pieces: they share the syncs of an index.
Task<void> drop_next(TargetNode& node, const std::vector<PieceDrop>& drops, std::size_t& next) {
  while (next < drops.size()) {
    const PieceDrop& drop = drops[next++];
    const auto dropped =
        co_await unless_hung(node, nullptr, node.store.pieces().drop(drop.key, drop.up_to));
    // It is asked about again when the drive is.
    if (!dropped)
      obs::log("target").warn("piece not dropped object={} piece={} err={}", drop.key.name,
                              drop.key.index, dropped.error().message);
  }
}

Task<void> drop_due(TargetNode& node, BootTime until) {
  const auto due = node.piece_drops.take_due(until);
  std::size_t next = 0;
  std::vector<Task<void>> workers;
  for (std::size_t i = 0; i < std::min(kDropsSideBySide, due.size()); ++i)
    workers.push_back(drop_next(node, due, next));
  co_await gather(std::move(workers));
}

}  // namespace

Task<Result<std::unique_ptr<NewPiece>>> begin_piece(TargetNode& node, const PieceWrite& write) {
  CO_TRY(const auto bucket, bucket_of(node, write.key.bucket));
  const PiecesHere::Wanted wanted{.rank = write.rank, .bytes = write.bytes};
  CO_TRY_OK(check_stays(node));
  CO_TRY(auto piece,
         co_await create_with_room(node, name_in(bucket, write.key.name), write.key, wanted));
  if (write.purpose == TurnFor::background) piece->file().write_in_background();
  // A look for pieces since this target leaves has seen this one, or this check sees that it
  // leaves.
  CO_TRY_OK(check_stays(node));
  co_return piece;
}

Status keep_piece(TargetNode& node, PieceToken token, WrittenPiece written) {
  if (node.open_pieces.add(token, std::move(written), node.clock.boot_time())) return {};
  return fail(Errc::conflict, "a piece was written under this token before");
}

Task<Status> seal_piece(TargetNode& node, PieceSeal seal) {
  auto written = node.open_pieces.take(seal.token);
  if (!written)
    co_return fail(Errc::not_found, "no piece was written under this token, or too long ago");
  const io::ObjectRecord& record = seal.attribute.record;
  Drive::SealOrder order{std::move(seal.attribute), std::move(seal.label), {}, seal.anew};
  if (written->digests) {
    if (written->digests->xxh64() != record.xxh64)
      co_return fail(Errc::checksum_mismatch, "the whole of {} is not what came here",
                     order.attribute.name);
    order.checksums = written->digests->blocks();
  }
  CO_TRY_OK(check_stays(node));
  CO_TRY(const auto bucket, bucket_of(node, order.attribute.bucket_id));
  order.attribute.bucket = bucket.placed_as();
  CO_FAIL_POINT("piece.before_seal");
  const PieceKey key = written->piece->key();
  const auto drive = node.store.drive_at(written->piece->file().drive().path());
  if (drive == nullptr) co_return fail(Errc::unavailable, "its drive has just been detached");
  CO_TRY(
      const auto sealed,
      co_await unless_hung(node, drive, seal_written(node, std::move(*written), std::move(order))));
  CO_FAIL_POINT("piece.sealed");
  if (sealed == Drive::Sealed::done) node.bad_pieces.erase(key);
  if (sealed != Drive::Sealed::had_newer) co_return Status();
  co_return fail(Errc::conflict, "piece {} of {} is here with a higher generation", key.index,
                 key.name);
}

void drop_piece_later(TargetNode& node, PieceDrop drop) {
  node.piece_drops.add(std::move(drop), node.clock.boot_time());
}

Task<void> drop_pieces_now(TargetNode& node) {
  co_await drop_due(node, node.clock.boot_time() + PieceDrops::kDelay);
}

Task<PieceSeen> state_here(TargetNode& node, PieceKey key) {
  const PieceSeen waiting{PieceState::waiting};
  if (node.bad_pieces.contains(key)) co_return absent_here(node);
  const auto found = co_await node.store.pieces().find(key);
  if (!found) co_return waiting;
  if (!*found) co_return absent_here(node);
  // Its file as well: an entry is soon believed.
  const auto opened = co_await node.store.pieces().open(key);
  if (opened)
    co_return PieceSeen{PieceState::good, cluster::placement_digest((*found)->drive->id())};
  note_if_bad(node, key, opened.error());
  co_return is_bad_file(opened.error()) ? absent_here(node) : waiting;
}

Task<std::vector<PieceSeen>> states_here(TargetNode& node, std::vector<PieceKey> keys) {
  std::vector<PieceSeen> out;
  out.reserve(keys.size());
  for (PieceKey& key : keys) out.push_back(co_await state_here(node, std::move(key)));
  co_return out;
}

void note_if_bad(TargetNode& node, const PieceKey& key, const Error& met) {
  if (is_bad_file(met)) node.bad_pieces.add(key);
}

Task<void> tell_of_bad_pieces(TargetNode& node) {
  for (const PieceKey& key : node.bad_pieces.to_tell(node.clock.boot_time())) {
    const auto state = node.view.state();
    const auto* bucket = state->bmd.find(key.bucket);
    const auto here = co_await node.store.pieces().find(key);
    if (bucket == nullptr || (here && !*here)) {
      node.bad_pieces.erase(key);
      continue;
    }
    const auto digest = cluster::placement_digest(name_in(*bucket, key.name).uname);
    const Status told = co_await tell_bad(
        node, std::string(cluster::writer_of(*state->ownership->map, digest)), key);
    if (!told)
      obs::log("target").warn("owner not told of a bad piece object={} piece={} err={}", key.name,
                              key.index, told.error().message);
  }
}

Task<Result<bool>> is_needed_for_pieces(TargetNode& node) {
  const std::uint64_t flags = own_flags(node);
  if (!leaves(flags) || (flags & cluster::kGivenUp) != 0) co_return false;
  co_return co_await node.store.pieces().any();
}

Task<void> look_after_pieces(TargetNode& node) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (true) {
    node.drives_away.learn(drives_away(node.store), node.clock.boot_time());
    node.owned.take_lost_drives(node.drives_away.believed_lost(node.clock.boot_time()) ^
                                lost_at_opening(node.store));
    timer.expires_at(next_tick(kPieceHomeLookEvery));
    co_await timer.async_wait(asio::use_awaitable);
    const BootTime now = node.clock.boot_time();
    const std::size_t given_up = node.open_pieces.drop_older(now - OpenPieces::kKept);
    if (given_up > 0) obs::log("target").info("pieces never sealed removed count={}", given_up);
    if (SAFETY("safety.drop_later"))
      co_await drop_due(node, now);
    else
      co_await drop_pieces_now(node);
  }
}

}  // namespace tarn::target
