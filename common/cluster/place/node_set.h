#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/cluster/place/hrw.h"

namespace tarn::cluster {

/// Place of one copy or slice of an object: a target of a NodeSet, and the index of a drive in that
/// target's own HRW order. `drive` is above 0 only where there are more copies than targets.
struct Replica {
  std::size_t node = 0;
  std::uint32_t drive = 0;

  auto operator<=>(const Replica&) const = default;
};

/// The targets between which placement chooses, at one time. Sorted by id. Where they lie in
/// several zones (docs/decisions/024), the copies of a name are spread evenly over these. A value.
class NodeSet {
 public:
  /// `weight` above 0, `drives` at least 1, `id` not in the set yet. `zone`: the same for all when
  /// placement takes no heed of zones.
  void add(std::string id, std::uint64_t digest, double weight, std::uint32_t drives,
           const std::string& zone = {});

  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  [[nodiscard]] bool empty() const { return ids_.empty(); }
  [[nodiscard]] const std::string& id(std::size_t index) const { return ids_[index]; }
  [[nodiscard]] bool contains(std::string_view id) const;
  [[nodiscard]] double weight(std::size_t index) const { return candidates_[index].weight; }
  [[nodiscard]] std::uint32_t drives(std::size_t index) const { return drives_[index]; }
  [[nodiscard]] const std::string& zone(std::size_t index) const {
    return zone_names_[zone_of_[index]];
  }
  /// Number of zones in which targets lie; 1 where placement takes no heed of them.
  [[nodiscard]] std::size_t zones() const { return zone_names_.size(); }

  /// The id of the first target in HRW order for the name with this digest; empty for an empty set.
  [[nodiscard]] const std::string& owner(std::uint64_t name_digest) const;
  /// Indexes of all targets in HRW order for the name with this digest.
  [[nodiscard]] std::vector<std::size_t> order(std::uint64_t name_digest) const;
  /// The replicas of `count` copies, the owner's first. Each next one is the first target without a
  /// copy in HRW order, in a zone with the fewest copies until then. Zones whose targets all have a
  /// copy do not count. When all targets have one, their other drives follow in the same way, as
  /// evenly as they have them. Fewer than `count` when there are not so many drives. A target more
  /// or fewer changes one replica of a name at most, while there are as many targets as copies.
  [[nodiscard]] std::vector<Replica> replicas(std::uint64_t name_digest, std::size_t count) const;
  /// True if `id` has one of the replicas.
  [[nodiscard]] bool is_replica(std::string_view id, std::uint64_t name_digest,
                                std::size_t count) const;

  bool operator==(const NodeSet& other) const;

 private:
  /// The replicas; none if `order`, the first targets in HRW order, does not reach far enough.
  [[nodiscard]] std::optional<std::vector<Replica>> spread(std::span<const std::size_t> order,
                                                           std::size_t count) const;

  std::vector<std::string> ids_;
  std::vector<Candidate> candidates_;
  std::vector<std::uint32_t> drives_;
  std::vector<std::string> zone_names_;  // as they came
  std::vector<std::uint32_t> zone_of_;   // index into zone_names_, of each target
};

}  // namespace tarn::cluster
