#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/cluster/place/hrw.h"

namespace tarn::cluster {

/// Where one piece (copy or slice) of an object lies: a target of a NodeSet, and which of that
/// target's drives in its own HRW order. `drive` is above 0 only where there are more pieces than
/// targets.
struct Home {
  std::size_t node = 0;
  std::uint32_t drive = 0;

  auto operator<=>(const Home&) const = default;
};

/// The targets between which placement chooses, at one time. Sorted by id.
class NodeSet {
 public:
  /// `weight` above 0, `drives` at least 1, `id` not in the set yet.
  void add(std::string id, std::uint64_t digest, double weight, std::uint32_t drives);

  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  [[nodiscard]] bool empty() const { return ids_.empty(); }
  [[nodiscard]] const std::string& id(std::size_t index) const { return ids_[index]; }
  [[nodiscard]] bool contains(std::string_view id) const;
  [[nodiscard]] double weight(std::size_t index) const { return candidates_[index].weight; }
  [[nodiscard]] std::uint32_t drives(std::size_t index) const { return drives_[index]; }

  /// The id of the first target in HRW order for the name with this digest; empty for an empty set.
  [[nodiscard]] const std::string& owner(std::uint64_t name_digest) const;
  /// The homes of `pieces` pieces, the owner's first: the first targets in HRW order, each once
  /// while there are enough of them, else their drives, as evenly as they have them. Fewer than
  /// `pieces` when there are not so many drives.
  [[nodiscard]] std::vector<Home> homes(std::uint64_t name_digest, std::size_t pieces) const;
  /// Whether `id` has one of the homes.
  [[nodiscard]] bool is_home(std::string_view id, std::uint64_t name_digest,
                             std::size_t pieces) const;

  bool operator==(const NodeSet& other) const;

 private:
  std::vector<std::string> ids_;
  std::vector<Candidate> candidates_;
  std::vector<std::uint32_t> drives_;
};

}  // namespace tarn::cluster
