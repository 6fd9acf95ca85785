#include "target/repair/unnamed_pieces.h"

#include <map>

#include "common/api/coding_props.h"
#include "common/obs/log.h"
#include "target/coded/piece_calls.h"
#include "target/coded/piece_home.h"

namespace tarn::target {
namespace {

/// The next pieces of a drive, and the key after which to go on.
struct UnnamedPiecesPage {
  std::vector<HeldPiece> pieces;
  std::optional<PieceKey> last;
  bool more = false;
};

Task<Result<UnnamedPiecesPage>> unnamed_pieces_next_page(Drive& drive, BucketId bucket,
                                                         std::optional<PieceKey> after) {
  UnnamedPiecesPage page;
  const auto visit = [&](const PieceKey& key, const io::ObjectRecord& record) {
    page.pieces.push_back({key, record.generation, record.piece->k, record.piece->file_bytes});
    page.last = key;
    page.more = page.pieces.size() == kPiecesAtOnce;
    return !page.more;
  };
  CO_TRY_OK(co_await drive.walk_pieces(bucket, std::move(after), visit));
  co_return page;
}

Task<void> ask_about(TargetNode& node, const cluster::BucketRecord& bucket,
                     std::vector<HeldPiece> pieces, UnnamedPieces& counts) {
  const auto map = node.view.state()->ownership->map;
  std::map<std::string, std::vector<HeldPiece>> by_owner;
  for (HeldPiece& piece : pieces) {
    const auto digest = cluster::placement_digest(name_in(bucket, piece.key.name).uname);
    by_owner[cluster::writer_of(*map, digest)].push_back(std::move(piece));
  }
  for (auto& [owner, of_owner] : by_owner) {
    counts.asked += of_owner.size();
    const auto verdicts = co_await ask_owner(node, owner, of_owner);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      if (verdicts[i].kind == PieceVerdict::Kind::wait) {
        ++counts.waiting;
        counts.unjudged[bucket.id].add({1, of_owner[i].bytes});
      }
      if (verdicts[i].kind != PieceVerdict::Kind::drop) continue;
      ++counts.dropped;
      obs::log("repair").debug("piece that nobody needs goes object={} piece={}",
                               of_owner[i].key.name, of_owner[i].key.index);
      drop_piece_later(node, {std::move(of_owner[i].key), verdicts[i].up_to});
    }
  }
}

}  // namespace

Task<Result<UnnamedPieces>> drop_unnamed(TargetNode& node) {
  UnnamedPieces counts;
  const auto state = node.view.state();
  for (const auto& [id, bucket] : state->bmd.buckets) {
    if (!api::was_ever_coded(bucket.props)) continue;
    for (const auto& drive : node.store.drives()) {
      if (!drive->in_service()) continue;
      std::optional<PieceKey> after;
      for (bool more = true; more;) {
        CO_TRY(UnnamedPiecesPage page, co_await unnamed_pieces_next_page(*drive, bucket.id, after));
        more = page.more;
        after = page.last;
        co_await ask_about(node, bucket, std::move(page.pieces), counts);
      }
    }
  }
  node.unjudged.set(counts.unjudged);
  co_return counts;
}

}  // namespace tarn::target
