#include "common/cluster/place/node_set.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tarn::cluster {

void NodeSet::add(std::string id, std::uint64_t digest, double weight, std::uint32_t drives,
                  const std::string& zone) {
  TARN_CHECK(weight > 0 && drives > 0);
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
  TARN_CHECK(at == ids_.end() || *at != id);
  const auto index = at - ids_.begin();
  ids_.insert(at, std::move(id));
  candidates_.insert(candidates_.begin() + index, Candidate{digest, weight});
  drives_.insert(drives_.begin() + index, drives);
  const auto known = std::find(zone_names_.begin(), zone_names_.end(), zone);
  zone_of_.insert(zone_of_.begin() + index,
                  static_cast<std::uint32_t>(known - zone_names_.begin()));
  if (known == zone_names_.end()) zone_names_.push_back(zone);
}

bool NodeSet::contains(std::string_view id) const {
  return std::binary_search(ids_.begin(), ids_.end(), id);
}

const std::string& NodeSet::owner(std::uint64_t name_digest) const {
  static const std::string nobody;
  return empty() ? nobody : ids_[placement_first(candidates_, name_digest)];
}

std::vector<std::size_t> NodeSet::order(std::uint64_t name_digest) const {
  return placement_order(candidates_, name_digest);
}

std::optional<std::vector<Replica>> NodeSet::spread(std::span<const std::size_t> order,
                                                    std::size_t count) const {
  std::vector<Replica> out;
  std::vector<std::size_t> has(zones());
  for (std::uint32_t drive = 0; out.size() < count; ++drive) {
    std::vector<std::size_t> unused(zones());  // targets without a copy in this round
    for (std::size_t node = 0; node < size(); ++node)
      if (drives_[node] > drive) ++unused[zone_of_[node]];
    std::vector<std::size_t> round;
    for (const std::size_t node : order)
      if (drives_[node] > drive) round.push_back(node);
    const auto before = out.size();
    while (out.size() < count) {
      std::optional<std::size_t> least;
      for (std::size_t zone = 0; zone < zones(); ++zone)
        if (unused[zone] > 0 && (!least || has[zone] < *least)) least = has[zone];
      if (!least) break;
      const auto next = std::find_if(round.begin(), round.end(), [&](std::size_t node) {
        return has[zone_of_[node]] == *least;
      });
      if (next == round.end()) return std::nullopt;
      const std::size_t zone = zone_of_[*next];
      --unused[zone];
      ++has[zone];
      out.push_back({*next, drive});
      round.erase(next);
    }
    if (out.size() == before) break;
  }
  return out;
}

std::vector<Replica> NodeSet::replicas(std::uint64_t name_digest, std::size_t count) const {
  std::vector<Replica> out;
  if (empty() || count == 0) return out;
  if (count == 1) return {{placement_first(candidates_, name_digest), 0}};
  if (zones() > 1) {
    // Few names need more of the order than this.
    constexpr std::size_t kAhead = 4;
    auto few = spread(placement_order(candidates_, name_digest, kAhead * count), count);
    return few ? std::move(*few) : spread(order(name_digest), count).value();
  }
  // While there are enough nodes, none has a second copy.
  const auto order = placement_order(candidates_, name_digest, count);
  bool any = true;
  for (std::uint32_t drive = 0; any && out.size() < count; ++drive) {
    any = false;
    for (const std::size_t node : order) {
      if (drives_[node] <= drive || out.size() == count) continue;
      out.push_back({node, drive});
      any = true;
    }
  }
  return out;
}

bool NodeSet::is_replica(std::string_view id, std::uint64_t name_digest, std::size_t count) const {
  if (count == 1) return !empty() && owner(name_digest) == id;
  const auto all = replicas(name_digest, count);
  return std::any_of(all.begin(), all.end(),
                     [&](const Replica& replica) { return ids_[replica.node] == id; });
}

bool NodeSet::operator==(const NodeSet& other) const {
  const auto same = [](const Candidate& a, const Candidate& b) {
    return a.digest == b.digest && a.weight == b.weight;
  };
  for (std::size_t i = 0; i < std::min(size(), other.size()); ++i)
    if (zone(i) != other.zone(i)) return false;
  return ids_ == other.ids_ && drives_ == other.drives_ &&
         std::equal(candidates_.begin(), candidates_.end(), other.candidates_.begin(),
                    other.candidates_.end(), same);
}

}  // namespace tarn::cluster
