#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket_props.h"

namespace tarn::api {

/// Coding of the larger objects of a bucket (docs/decisions/019).
struct CodingProps {
  std::uint8_t k = 0;           ///< data slices
  std::uint8_t m = 0;           ///< parity slices
  std::int64_t size_limit = 0;  ///< bytes: objects of at most so many are copied; -1: all are
  bool full_copy = true;        ///< the owner keeps the object as it is, beside the slices

  bool operator==(const CodingProps&) const = default;
  [[nodiscard]] bool is_coded(std::uint64_t size) const {
    return size_limit >= 0 && size > static_cast<std::uint64_t>(size_limit);
  }
};
/// The coding if `ec.enabled`; else none.
[[nodiscard]] std::optional<CodingProps> coding_of(const BucketProps& props);
/// True if the bucket is, or once was, coded: some of its objects may be.
[[nodiscard]] bool was_ever_coded(const BucketProps& props);
/// Number of nodes with the record of an object, and with the object itself if it is not cut.
[[nodiscard]] std::uint8_t replicas_of(const BucketProps& props);

/// Returns `props` of a coded bucket with more copies on the drives of each target, so that
/// `targets` targets together have m + 1. Copies are those of each record, and of each object that
/// is not cut. Their number never falls; with m + 1 targets nothing changes.
[[nodiscard]] BucketProps with_record_copies(BucketProps props, std::size_t targets);

/// Check of a bucket's properties: invalid_argument for more than 32 slices, for mirroring beside
/// coding, and for a durability that needs it.
[[nodiscard]] Status check_coding(const BucketProps& props);
/// Check of a change of properties, `after` as with_record_copies() has it: unsupported for a
/// bucket that has, or would have, copies on drives, and is to be coded or is not to be any more.
[[nodiscard]] Status check_other_coding(const BucketProps& before, const BucketProps& after);

/// `props` of a bucket that is to be coded, as AIStore's ec-encode asks for it: the text of a JSON
/// object, or that, of `data_slices`, `parity_slices` and `objsize_limit`, each optional; of Tarn's
/// own also `layout`. invalid_argument for anything else.
[[nodiscard]] Result<BucketProps> with_coding(BucketProps props, const nlohmann::json& wanted);

}  // namespace tarn::api
