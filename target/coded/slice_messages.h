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
#include "target/node/open_slices.h"

namespace tarn::target {

// Messages between targets about the slices of coded objects, on the internal listener
// (docs/decisions/019-coded-objects.md; holder_calls.h calls, slice_requests.cc answers):
//
//   PUT  /v1/internal/pieces/write?token&...    body: the blocks of a slice, or the bytes of a
//                                               full copy, into a file that is nothing yet
//   POST /v1/internal/pieces/seal?token&...     body: length(4 bytes, little-endian) attribute
//                                               label; makes a slice of that file, durably
//   POST /v1/internal/pieces/abandon?token      removes it
//   GET  /v1/internal/pieces/read?...           some blocks of a slice, or bytes of a full copy
//   POST /v1/internal/pieces/drop?...           the slice is not needed up to a generation
//   POST /v1/internal/pieces/have?...           which of many slices are there
//   POST /v1/internal/pieces/ask?...            holder to owner: which of many are needed
//   POST /v1/internal/pieces/bad?...            holder to owner: one must be made anew
//
// All of it pure.

inline constexpr const char* kSliceWritePath = "/v1/internal/pieces/write";
inline constexpr const char* kSliceSealPath = "/v1/internal/pieces/seal";
inline constexpr const char* kSliceAbandonPath = "/v1/internal/pieces/abandon";
inline constexpr const char* kSliceReadPath = "/v1/internal/pieces/read";
inline constexpr const char* kSliceDropPath = "/v1/internal/pieces/drop";
inline constexpr const char* kSliceHavePath = "/v1/internal/pieces/have";
inline constexpr const char* kSliceAskPath = "/v1/internal/pieces/ask";
inline constexpr const char* kSliceBadPath = "/v1/internal/pieces/bad";

[[nodiscard]] SliceToken new_slice_token();

/// State of the cluster by which the caller acts: a receiver with an older one fetches it first.
struct AsOf {
  std::uint64_t map_version = 0;
  std::uint64_t bmd_version = 0;
};

/// A slice that is to be written.
struct SliceWrite {
  SliceToken token{};
  SliceKey key;
  ec::Geometry geometry;
  std::size_t rank = 0;                ///< the how-manieth slice of its set on that target
  std::optional<std::uint64_t> bytes;  ///< of its file without its label, if that is known
  TurnFor purpose = TurnFor::client;
};
[[nodiscard]] api::Query to_query(const SliceWrite& write, const AsOf& as_of);
/// invalid_argument, with what is missing or no number.
[[nodiscard]] Result<SliceWrite> slice_write_of(const api::Query& query);

/// Order to make a slice of what was written.
struct SliceSeal {
  SliceToken token{};
  bool anew = false;  ///< also in place of one that is as new
  io::ObjectAttribute attribute;
  std::string label;  ///< none of a full copy
};
[[nodiscard]] api::Query to_query(const SliceSeal& seal, const AsOf& as_of);
[[nodiscard]] std::string to_body(const SliceSeal& seal);
inline constexpr std::size_t kSliceSealBytesMax = 64U << 10U;
/// checksum_mismatch when the attribute was changed on its way.
[[nodiscard]] Result<SliceSeal> slice_seal_of(const api::Query& query, const std::string& body);

[[nodiscard]] api::Query to_query(SliceToken token);
[[nodiscard]] Result<SliceToken> slice_token_of(const api::Query& query);

/// Bytes of a slice's file.
struct SliceRead {
  SliceKey key;
  ec::FileRange range;
  TurnFor purpose = TurnFor::client;  ///< clients of the holder go before a repair
  /// The caller has other slices to read: timeout, at once, where the slice is on a slow drive.
  bool unless_slow = false;
};
[[nodiscard]] api::Query to_query(const SliceRead& read, const AsOf& as_of);
[[nodiscard]] Result<SliceRead> slice_read_of(const api::Query& query);

[[nodiscard]] api::Query to_query(const SliceDrop& drop, const AsOf& as_of);
[[nodiscard]] Result<SliceDrop> slice_drop_of(const api::Query& query);

/// Most slices that are asked about at once.
inline constexpr std::size_t kSlicesAtOnce = 1000;
/// Most bytes of a body, question or answer, that is about so many slices.
inline constexpr std::size_t kSlicesBytesMax = 4U << 20U;

/// State of a slice where a record names it.
enum class SliceState : std::uint8_t {
  good,
  waiting,  ///< not there, and may come back by itself
  missing
};
/// A slice where it is, and the generation that it has there.
struct HeldSlice {
  SliceKey key;
  Generation generation;
  std::uint8_t k = 1;       ///< so many slices make the object
  std::uint64_t bytes = 0;  ///< of its file; not in any message
};
/// Verdict of an object's owner on a slice at some target.
struct SliceVerdict {
  enum class Kind : std::uint8_t {
    keep,  ///< the newest record names it there
    wait,  ///< not known now
    drop   ///< not needed with a generation up to `up_to`
  };
  Kind kind = Kind::wait;
  Generation up_to = {};
};
// Bodies, in MessagePack. Reading: invalid_argument when they are none, or too many.
[[nodiscard]] std::string to_body(std::span<const SliceKey> keys);
[[nodiscard]] Result<std::vector<SliceKey>> slice_keys_of(std::string_view body);
[[nodiscard]] std::string to_body(std::span<const SliceState> states);
[[nodiscard]] Result<std::vector<SliceState>> slice_states_of(std::string_view body);
[[nodiscard]] std::string to_body(std::span<const HeldSlice> slices);
[[nodiscard]] Result<std::vector<HeldSlice>> held_slices_of(std::string_view body);
[[nodiscard]] std::string to_body(std::span<const SliceVerdict> verdicts);
[[nodiscard]] Result<std::vector<SliceVerdict>> slice_verdicts_of(std::string_view body);

[[nodiscard]] api::Query to_query(const SliceKey& key, const AsOf& as_of);
[[nodiscard]] Result<SliceKey> slice_key_of(const api::Query& query);
[[nodiscard]] api::Query to_query(const AsOf& as_of);
[[nodiscard]] Result<AsOf> as_of(const api::Query& query);

}  // namespace tarn::target
