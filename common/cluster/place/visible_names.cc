#include "common/cluster/place/visible_names.h"

#include <algorithm>
#include <map>

namespace tarn::cluster {
namespace {

using Blind = std::function<bool(const std::string&)>;

struct ZoneCount {
  std::size_t targets = 0;
  std::size_t ones = 0;  ///< of these, those that are asked for
};

bool has_id(const std::vector<std::string>& ids, const std::string& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// True if names with `replicas` replicas among `nodes` each have one that is neither blind nor
/// lost.
bool shows(const NodeSet& nodes, const std::vector<std::string>& lost, std::size_t replicas,
           const Blind& is_blind) {
  const auto cannot = [&](const std::string& id) { return is_blind(id) || has_id(lost, id); };
  bool any = false;
  for (std::size_t i = 0; i < nodes.size(); ++i) any = any || cannot(nodes.id(i));
  return !any || !may_hold_all(nodes, replicas, cannot);
}

}  // namespace

bool may_hold_all(const NodeSet& nodes, std::size_t count,
                  const std::function<bool(const std::string&)>& is_one) {
  std::map<std::string, ZoneCount> zones;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    ZoneCount& zone = zones[nodes.zone(i)];
    ++zone.targets;
    if (is_one(nodes.id(i))) ++zone.ones;
  }
  // Replicas are one a zone, then two a zone, and so on, in zones that have so many targets. Of the
  // last round any zone may have one.
  std::size_t left = std::min(count, nodes.size());
  for (std::size_t round = 1; left > 0; ++round) {
    std::size_t open = 0;
    std::size_t may = 0;
    for (const auto& [name, zone] : zones) {
      if (zone.targets >= round) ++open;
      if (zone.ones >= round) ++may;
    }
    if (may < std::min(open, left)) return false;
    left -= std::min(open, left);
  }
  return true;
}

bool shows_past_names(const Ownership& map, const ReplicaCount& count, const Blind& is_blind) {
  return std::all_of(map.past.begin(), map.past.end(), [&](const PastEpoch& set) {
    const std::size_t replicas = count.at(set.last);
    // Such a set stands only for names that had no other replica in it.
    const bool is_given =
        !set.only_for.empty() && !may_hold_all(set.nodes, replicas, [&](const std::string& id) {
          return has_id(set.only_for, id);
        });
    return is_given || shows(set.nodes, set.lost, replicas, is_blind);
  });
}

bool shows_all_names(const Ownership& map, const ReplicaCount& count, const Blind& is_blind) {
  return shows(map.current, {}, count.at(map.version), is_blind) &&
         shows_past_names(map, count, is_blind);
}

}  // namespace tarn::cluster
