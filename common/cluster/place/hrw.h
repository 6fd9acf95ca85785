#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace tarn::cluster {

/// Placement by highest random weight, bit for bit that of AIStore (its core/meta/hrw.go), so
/// that its SDK computes the same owner. Pure functions.

/// X(s) = XXH64(s, seed 1103515245): digests of node ids, mountpaths and unames.
[[nodiscard]] std::uint64_t placement_digest(std::string_view text);

/// H(z): the mixing function.
[[nodiscard]] std::uint64_t placement_mix(std::uint64_t seed);

/// A target or drive that may own a name. With weight 1 for all the placement is AIStore's.
struct Candidate {
  std::uint64_t digest = 0;
  double weight = 1.0;  ///< relative capacity, > 0
};

/// Indexes of `candidates`, best first, for the name whose digest is `name_digest`. Equal weights:
/// ordered by H(candidate.digest ^ name_digest). Otherwise by the weighted rendezvous score
/// -weight / ln(u), u = (H + 0.5) / 2^64, which keeps that order among equal weights.
/// Ties (practically never) go to the lower index. The first `count` of them only: to order a
/// thousand for the best two costs ten times as much as to find these.
[[nodiscard]] std::vector<std::size_t> placement_order(
    std::span<const Candidate> candidates, std::uint64_t name_digest,
    std::size_t count = std::numeric_limits<std::size_t>::max());
/// The first of placement_order without sorting. `candidates` must not be empty.
[[nodiscard]] std::size_t placement_first(std::span<const Candidate> candidates,
                                          std::uint64_t name_digest);

}  // namespace tarn::cluster
