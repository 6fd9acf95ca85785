// Pieces that go from one drive of this target to another: copied and compared, sealed there under
// the generation that they have, then dropped where they were. A crash leaves one or both, which
// are the same bytes.

#include "target/rebalance/piece_moves.h"

#include "common/base/buffer_pool.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/block_reader.h"
#include "target/drive/block_writer.h"
#include "target/drive/piece_ids.h"

namespace tarn::target {
namespace {

constexpr std::size_t kPagePieces = 256;

struct PieceMovesPage {
  std::vector<std::pair<PieceKey, io::ObjectRecord>> pieces;
  std::optional<PieceKey> last;  // that was looked at
  bool more = false;
};

/// The next pieces that are to go from `drive`. Of several of one set all but the first.
Task<Result<PieceMovesPage>> piece_moves_next_page(Drive& drive, BucketId bucket,
                                                   std::optional<PieceKey> after) {
  PieceMovesPage page;
  page.last = after;
  const bool all = drive.draining();
  std::size_t looked = 0;
  const auto visit = [&](const PieceKey& key, const io::ObjectRecord& record) {
    if (all || (page.last && same_set(*page.last, key))) page.pieces.emplace_back(key, record);
    page.last = key;
    page.more = page.pieces.size() == kPagePieces || ++looked == kPagePieces * 64;
    return !page.more;
  };
  CO_TRY_OK(co_await drive.walk_pieces(bucket, std::move(after), visit));
  co_return page;
}

/// Its blocks, or bytes, each of them checked; what seal() wants to know of them goes into the
/// order.
Task<Result<bool>> copy_piece(Drive& from, const PieceKey& key, WorkFile& to, const Pace& pace,
                              Drive::SealOrder& order) {
  CO_TRY(const auto piece, co_await from.open_piece(key));
  if (!piece) co_return false;
  Digests digests;
  {
    BlockReader blocks(*piece, TurnFor::background);
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): outlives write_chunks()
    const auto next = [&](std::span<std::byte> into) -> Task<Result<std::size_t>> {
      const std::uint64_t left = piece->file_bytes() - digests.size();
      CO_TRY_OK(co_await pace.pass(std::min(kBlockBytes, left)));
      CO_FAIL_POINT("move.block");
      co_return co_await blocks.next(into);
    };
    CO_TRY_OK(co_await write_chunks(to, digests, next));
  }
  if (key.index != io::kWhole) {
    CO_TRY(order.label, co_await from.piece_label(key));
    co_return true;
  }
  if (digests.xxh64() != piece->record().xxh64)
    co_return fail(Errc::corrupt, "the whole of {} on drive {} does not match its checksum",
                   key.name, from.path());
  order.checksums = digests.blocks();
  co_return true;
}

/// False: it went by itself, or may stay.
Task<Result<bool>> move_piece(ObjectStore& store, const cluster::BucketRecord& bucket, Drive& from,
                              const PieceKey& key, const io::ObjectRecord& record,
                              const Pace& pace) {
  PiecesHere& pieces = store.pieces();
  PiecesHere::Wanted wanted;
  wanted.bytes = record.file_bytes();
  wanted.not_on = &from;
  wanted.alone = !from.draining();
  ObjectName name{bucket.id, bucket.placement_name(key.name), key.name};
  auto made = co_await pieces.create(std::move(name), key, wanted);
  const bool no_better_place =
      !made && wanted.alone &&
      (made.error().code == Errc::no_space || made.error().code == Errc::unavailable);
  if (no_better_place) co_return false;
  CO_TRY(const auto copy, std::move(made));
  copy->file().write_in_background();
  Drive::SealOrder order;
  order.attribute = {key.bucket, bucket.placed_as(), key.name, record};
  CO_TRY(const bool copied, co_await copy_piece(from, key, copy->file(), pace, order));
  if (!copied) co_return false;
  co_return co_await pieces.replace(*copy, std::move(order), from);
}

}  // namespace

Task<Status> move_pieces(ObjectStore& store, std::shared_ptr<const cluster::ClusterState> state,
                         Drive& from, const Pace& pace, api::CopyProgress& counts) {
  CO_TRY(const bool any, co_await from.has_pieces());
  if (!any) co_return Status();
  Status first;
  for (const auto& [name, bucket] : state->bmd.buckets) {
    PieceMovesPage page;
    do {
      CO_TRY(page, co_await piece_moves_next_page(from, bucket.id, page.last));
      for (const auto& [key, record] : page.pieces) {
        CO_TRY_OK(pace.go_on());
        const auto moved = co_await move_piece(store, bucket, from, key, record, pace);
        CO_TRY_OK(pace.go_on());
        if (!moved)
          obs::log("target").warn("piece not moved object={} piece={} drive={} err={}", key.name,
                                  key.index, from.path(), moved.error().message);
        // Where it may stay, the next walk will do.
        if (!moved && from.draining() && first)
          first = fail(moved.error().code, "piece {} of {}: {}", key.index, key.name,
                       moved.error().message);
        if (!moved || !*moved) continue;
        ++counts.objects;
        counts.bytes += record.file_bytes();
      }
    } while (page.more);
  }
  co_return first;
}

}  // namespace tarn::target
