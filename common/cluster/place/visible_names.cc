#include "common/cluster/place/visible_names.h"

#include <algorithm>

namespace tarn::cluster {

bool shows_all_names(const Ownership& map, const Pieces& pieces,
                     const std::function<bool(const std::string&)>& is_blind) {
  const auto shows = [&](const NodeSet& nodes, const std::vector<std::string>& lost,
                         std::size_t homes) {
    std::size_t blind = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::string& id = nodes.id(i);
      if (is_blind(id) || std::find(lost.begin(), lost.end(), id) != lost.end()) ++blind;
    }
    return blind == 0 || blind < homes;
  };
  if (!shows(map.current, {}, std::min(pieces.at(map.version), map.current.size()))) return false;
  return std::all_of(map.past.begin(), map.past.end(), [&](const PastSet& set) {
    const std::size_t homes = std::min(pieces.at(set.last), set.nodes.size());
    // Such a set stands only for names that had no other home in it.
    const bool is_given = !set.only_for.empty() && set.only_for.size() < homes;
    return is_given || shows(set.nodes, set.lost, homes);
  });
}

}  // namespace tarn::cluster
