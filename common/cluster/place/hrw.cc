#include "common/cluster/place/hrw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <compare>

#include "common/base/check.h"
#include "common/base/hash.h"

namespace tarn::cluster {
namespace {

constexpr std::uint64_t kSeed = 1103515245;

/// -weight / ln(u), u = (h + 0.5) / 2^64. Near u = 1 the logarithm is taken of 1 - (1 - u): u
/// itself would round to 1 there and the score to infinity.
double weighted_score(std::uint64_t h, double weight) {
  constexpr double kUnit = 0x1p-64;
  const double log_u = h >= (1ULL << 63U) ? std::log1p(-(static_cast<double>(~h) + 0.5) * kUnit)
                                          : std::log((static_cast<double>(h) + 0.5) * kUnit);
  return -weight / log_u;
}

/// Rank of one candidate for one name. The greater one is the better owner.
struct Rank {
  double score = 0;  // 0 for all when the weights are equal: then the hash alone decides
  std::uint64_t hash = 0;

  auto operator<=>(const Rank&) const = default;
};

bool equal_weights(std::span<const Candidate> candidates) {
  return std::all_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
    return candidate.weight == candidates.front().weight;
  });
}

Rank rank(const Candidate& candidate, std::uint64_t name_digest, bool equal) {
  const std::uint64_t hash = placement_mix(candidate.digest ^ name_digest);
  return {equal ? 0.0 : weighted_score(hash, candidate.weight), hash};
}

}  // namespace

std::uint64_t placement_digest(std::string_view text) { return xxh64(text, kSeed); }

std::uint64_t placement_mix(std::uint64_t seed) {
  std::uint64_t z = seed + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
  z = (z ^ (z >> 31U)) + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
  z = (z ^ (z >> 31U)) * 5;
  return std::rotl(z, 7) * 9;
}

std::vector<std::size_t> placement_order(std::span<const Candidate> candidates,
                                         std::uint64_t name_digest, std::size_t count) {
  const bool equal = candidates.empty() || equal_weights(candidates);
  std::vector<Rank> ranks;
  std::vector<std::size_t> order;
  ranks.reserve(candidates.size());
  order.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    order.push_back(order.size());
    ranks.push_back(rank(candidate, name_digest, equal));
  }
  const auto better = [&](std::size_t a, std::size_t b) {
    return ranks[a] != ranks[b] ? ranks[a] > ranks[b] : a < b;
  };
  count = std::min(count, order.size());
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(order.begin(), end, order.end(), better);
  order.resize(count);
  return order;
}

std::size_t placement_first(std::span<const Candidate> candidates, std::uint64_t name_digest) {
  TARN_CHECK(!candidates.empty());
  const bool equal = equal_weights(candidates);
  std::size_t best = 0;
  Rank best_rank = rank(candidates[0], name_digest, equal);
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const Rank next = rank(candidates[i], name_digest, equal);
    if (next > best_rank) {
      best = i;
      best_rank = next;
    }
  }
  return best;
}

}  // namespace tarn::cluster
