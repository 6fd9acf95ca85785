#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/api/request_path.h"
#include "common/base/error.h"
#include "common/io/object_attribute.h"
#include "ec/layout.h"
#include "target/drive/head_turns.h"
#include "target/drive/index.h"
#include "target/node/open_pieces.h"

namespace tarn::target {

// Messages between targets about the pieces of coded objects, on the internal listener
// (docs/decisions/019-coded-objects.md; piece_calls.h calls, piece_requests.cc answers):
//
//   PUT  /v1/internal/pieces/write?token&...    body: the blocks of a slice, or the bytes of a
//                                               whole, into a file that is nothing yet
//   POST /v1/internal/pieces/seal?token&...     body: length(4 bytes, little-endian) attribute
//                                               label; makes a piece of that file, durably
//   POST /v1/internal/pieces/abandon?token      removes it
//   GET  /v1/internal/pieces/read?...           some blocks of a slice, or bytes of a whole
//   POST /v1/internal/pieces/drop?...           the piece is not needed up to a generation
//   POST /v1/internal/pieces/have?...           which of many pieces are there
//   POST /v1/internal/pieces/ask?...            home to owner: which of many are needed
//   POST /v1/internal/pieces/bad?...            home to owner: one must be made anew
//
// All of it pure.

inline constexpr const char* kPieceWritePath = "/v1/internal/pieces/write";
inline constexpr const char* kPieceSealPath = "/v1/internal/pieces/seal";
inline constexpr const char* kPieceAbandonPath = "/v1/internal/pieces/abandon";
inline constexpr const char* kPieceReadPath = "/v1/internal/pieces/read";
inline constexpr const char* kPieceDropPath = "/v1/internal/pieces/drop";
inline constexpr const char* kPieceHavePath = "/v1/internal/pieces/have";
inline constexpr const char* kPieceAskPath = "/v1/internal/pieces/ask";
inline constexpr const char* kPieceBadPath = "/v1/internal/pieces/bad";

[[nodiscard]] PieceToken new_piece_token();

/// State of the cluster by which the caller acts: a receiver with an older one fetches it first.
struct AsOf {
  std::uint64_t map_version = 0;
  std::uint64_t bmd_version = 0;
};

/// A piece that is to be written.
struct PieceWrite {
  PieceToken token{};
  PieceKey key;
  ec::Geometry geometry;
  std::size_t rank = 0;                ///< the how-manieth piece of its set on that target
  std::optional<std::uint64_t> bytes;  ///< of its file without its label, if that is known
  TurnFor purpose = TurnFor::client;
};
[[nodiscard]] api::Query to_query(const PieceWrite& write, const AsOf& as_of);
/// invalid_argument, with what is missing or no number.
[[nodiscard]] Result<PieceWrite> piece_write_of(const api::Query& query);

/// Order to make a piece of what was written.
struct PieceSeal {
  PieceToken token{};
  bool anew = false;  ///< also in place of one that is as new
  io::ObjectAttribute attribute;
  std::string label;  ///< none of a whole
};
[[nodiscard]] api::Query to_query(const PieceSeal& seal, const AsOf& as_of);
[[nodiscard]] std::string to_body(const PieceSeal& seal);
inline constexpr std::size_t kPieceSealBytesMax = 64U << 10U;
/// checksum_mismatch when the attribute was changed on its way.
[[nodiscard]] Result<PieceSeal> piece_seal_of(const api::Query& query, const std::string& body);

[[nodiscard]] api::Query to_query(PieceToken token);
[[nodiscard]] Result<PieceToken> piece_token_of(const api::Query& query);

/// Bytes of a piece's file.
struct PieceRead {
  PieceKey key;
  ec::FileRange range;
  TurnFor purpose = TurnFor::client;  ///< clients of the home go before a repair
  /// The caller has other slices to read: timeout, at once, where the piece is on a slow drive.
  bool unless_slow = false;
};
[[nodiscard]] api::Query to_query(const PieceRead& read, const AsOf& as_of);
[[nodiscard]] Result<PieceRead> piece_read_of(const api::Query& query);

[[nodiscard]] api::Query to_query(const PieceDrop& drop, const AsOf& as_of);
[[nodiscard]] Result<PieceDrop> piece_drop_of(const api::Query& query);

/// So many pieces are asked about at once.
inline constexpr std::size_t kPiecesAtOnce = 1000;
/// Of a body, question or answer, that is about so many.
inline constexpr std::size_t kPiecesBytesMax = 4U << 20U;

/// State of a piece where a record names it.
enum class PieceState : std::uint8_t {
  good,
  waiting,  ///< it is not there, and may come back by itself
  missing
};
/// A piece where it is, and the generation that it has there.
struct HeldPiece {
  PieceKey key;
  Generation generation;
  std::uint8_t k = 1;       ///< so many slices make the object
  std::uint64_t bytes = 0;  ///< of its file; not in any message
};
/// Verdict of an object's owner on a piece at some target.
struct PieceVerdict {
  enum class Kind : std::uint8_t {
    keep,  ///< the newest record names it there
    wait,  ///< that cannot be told now
    drop   ///< it is not needed with a generation up to `up_to`
  };
  Kind kind = Kind::wait;
  Generation up_to = {};
};
// Bodies, in MessagePack. Reading: invalid_argument when they are none, or too many.
[[nodiscard]] std::string to_body(std::span<const PieceKey> keys);
[[nodiscard]] Result<std::vector<PieceKey>> piece_keys_of(std::string_view body);
[[nodiscard]] std::string to_body(std::span<const PieceState> states);
[[nodiscard]] Result<std::vector<PieceState>> piece_states_of(std::string_view body);
[[nodiscard]] std::string to_body(std::span<const HeldPiece> pieces);
[[nodiscard]] Result<std::vector<HeldPiece>> held_pieces_of(std::string_view body);
[[nodiscard]] std::string to_body(std::span<const PieceVerdict> verdicts);
[[nodiscard]] Result<std::vector<PieceVerdict>> piece_verdicts_of(std::string_view body);

[[nodiscard]] api::Query to_query(const PieceKey& key, const AsOf& as_of);
[[nodiscard]] Result<PieceKey> piece_key_of(const api::Query& query);
[[nodiscard]] api::Query to_query(const AsOf& as_of);
[[nodiscard]] Result<AsOf> as_of(const api::Query& query);

}  // namespace tarn::target
