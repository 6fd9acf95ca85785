#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "target/coded/piece_format.h"
#include "target/coded/piece_seen.h"
#include "target/node/node.h"

namespace tarn::target {

// Pieces of coded objects at other targets (piece_format.h). Errors of all: unavailable (not in the
// map), disconnected (no answer), and what the target answers (piece_home.h).

/// A piece on its way to the target that is to be its home. Dying early ends what it has sent.
class PieceUpload {
 public:
  /// Ok: that target has a file for it. no_space when no drive there takes it.
  static Task<Result<PieceUpload>> open(TargetNode& node, std::string home,
                                        const PieceWrite& write);

  /// The next blocks of a slice, whole ones, or bytes of a whole.
  Task<Status> write(std::span<const std::byte> bytes);
  /// Ok: all of it is there, and kept for a while (OpenPieces::kKept).
  Task<Status> finish();

 private:
  PieceUpload(std::string home, http::ClientStream stream)
      : home_(std::move(home)), stream_(std::move(stream)) {}
  Task<Status> read_answer();

  std::string home_;
  http::ClientStream stream_;
  std::uint64_t sent_ = 0;
};

/// Bytes of a piece, in order, from its home, which compares them with what was stored; what the
/// network did to them since is the caller's to see.
class PieceDownload {
 public:
  /// object_not_found when it has no such piece.
  static Task<Result<PieceDownload>> open(TargetNode& node, std::string home, PieceRead read);

  /// Fills `into`. disconnected also when the home found that bytes are not what was stored: it
  /// ends the answer there.
  Task<Status> read(std::span<std::byte> into);

 private:
  PieceDownload(std::string home, http::ClientStream stream)
      : home_(std::move(home)), stream_(std::move(stream)) {}

  std::string home_;
  http::ClientStream stream_;
};

/// Ok: the piece is on stable storage at `home`.
Task<Status> seal_at(TargetNode& node, std::string home, PieceSeal seal);
Task<Status> abandon_at(TargetNode& node, std::string home, PieceToken token);
/// Ok: it has heard that the piece is not needed up to that generation.
Task<Status> drop_at(TargetNode& node, std::string home, PieceDrop drop);

/// Tells the owner of an object of a piece here that must be made anew.
Task<Status> tell_bad(TargetNode& node, std::string owner, PieceKey key);
/// For each piece, at most kPiecesAtOnce, whether it is at `home`, which may be this target. One
/// that is down, or does not answer, may be back with them; one that is out, or no member, has lost
/// them.
Task<std::vector<PieceSeen>> states_at(TargetNode& node, std::string home,
                                       std::vector<PieceKey> keys);
/// Returns the owner's verdicts on pieces that this target has; `wait` for all when it does not
/// answer.
Task<std::vector<PieceVerdict>> ask_owner(TargetNode& node, std::string owner,
                                          std::vector<HeldPiece> pieces);

}  // namespace tarn::target
