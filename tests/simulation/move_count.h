#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/cluster/place/ownership.h"

// How many names a change of the map moves, and how many it must move at least.
namespace tarn::cluster {

/// Names that a change from one set to another moves, with one copy each.
struct MoveCount {
  std::uint64_t names = 0;
  std::uint64_t moved = 0;
  std::uint64_t needless = 0;  ///< of these, between two targets that are in both sets
};

/// Counts one name.
inline void count_move(MoveCount& count, const NodeSet& before, const NodeSet& after,
                       std::uint64_t name_digest) {
  ++count.names;
  const std::string& from = before.owner(name_digest);
  const std::string& to = after.owner(name_digest);
  if (from == to) return;
  ++count.moved;
  if (after.contains(from) && before.contains(to)) ++count.needless;
}

/// The share of all names that a change must move at least: what the weights of those who gain
/// demand.
inline double least_share(const NodeSet& before, const NodeSet& after) {
  const auto total = [](const NodeSet& set) {
    double sum = 0;
    for (std::size_t i = 0; i < set.size(); ++i) sum += set.weight(i);
    return sum;
  };
  const auto share_before = [&, all = total(before)](const std::string& id) {
    for (std::size_t i = 0; i < before.size(); ++i)
      if (before.id(i) == id) return before.weight(i) / all;
    return 0.0;
  };
  double out = 0;
  const double all = total(after);
  for (std::size_t i = 0; i < after.size(); ++i)
    out += std::max(0.0, after.weight(i) / all - share_before(after.id(i)));
  return out;
}

}  // namespace tarn::cluster
