#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "target/coded/piece_format.h"

namespace tarn::target {

/// Report of a target on a piece.
struct PieceSeen {
  PieceState state = PieceState::missing;
  /// A number of the drive that has a good one, of no other drive of the cluster: pieces with the
  /// same number are lost together. 0: it does not say.
  std::uint64_t drive = 0;
  /// True if the target is down, or did not answer. Not in any message.
  bool unheard = false;

  bool operator==(const PieceSeen&) const = default;
};

/// In MessagePack: [states as piece_format.h has them, drives]. Pure.
[[nodiscard]] std::string to_body(std::span<const PieceSeen> pieces);
/// invalid_argument when it is none, or too many.
[[nodiscard]] Result<std::vector<PieceSeen>> pieces_seen_in(std::string_view body);

}  // namespace tarn::target
