#pragma once

#include <memory>
#include <vector>

#include "target/coded/piece_format.h"
#include "target/coded/piece_seen.h"
#include "target/node/node.h"
#include "target/node/open_pieces.h"

namespace tarn::target {

// Work of a home of pieces, asked by another target (piece_requests.cc) or by itself as the owner
// of the object.

/// A file for the piece. bucket_not_found when the bucket is not there (any more), unavailable when
/// this target is put aside or leaves, else as PiecesHere::create().
Task<Result<std::unique_ptr<NewPiece>>> begin_piece(TargetNode& node, const PieceWrite& write);
/// All has been written: it waits to be sealed, for OpenPieces::kKept. conflict when the token has
/// been used.
Status keep_piece(TargetNode& node, PieceToken token, WrittenPiece written);
/// Makes a piece of what was written under the token: on stable storage when it returns. Errors:
/// not_found (no such token), conflict (a newer one is here), checksum_mismatch (it is not what the
/// order says), bucket_not_found, unavailable as begin_piece(); then, and after any other, what was
/// written is gone.
Task<Status> seal_piece(TargetNode& node, PieceSeal seal);
/// The piece is not needed up to this generation: it goes a while later (PieceDrops).
void drop_piece_later(TargetNode& node, PieceDrop drop);

/// Notes an error that a reader met at a piece here: a piece that is not what was stored, or cannot
/// be read, counts as missing from then on, and its owner hears of it.
void note_if_bad(TargetNode& node, const PieceKey& key, const Error& met);
/// Tells the owners of bad pieces here of them.
Task<void> tell_of_bad_pieces(TargetNode& node);
/// Returns for each piece if it is here, and not known to be bad, and on which drive.
Task<std::vector<PieceSeen>> states_here(TargetNode& node, std::vector<PieceKey> keys);
/// True if this target, which is put aside or leaves, still has pieces: it is needed until other
/// targets have them. A leaver that has none will have none (begin_piece()).
Task<Result<bool>> is_needed_for_pieces(TargetNode& node);

/// Removes at once what drop_piece_later() was told, for room on a drive: a reader by an older
/// record begins anew.
Task<void> drop_pieces_now(TargetNode& node);

/// Removes what was never sealed and what is not needed; runs until it is cancelled.
Task<void> look_after_pieces(TargetNode& node);

}  // namespace tarn::target
