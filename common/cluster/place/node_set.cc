#include "common/cluster/place/node_set.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tarn::cluster {

void NodeSet::add(std::string id, std::uint64_t digest, double weight, std::uint32_t drives) {
  TARN_CHECK(weight > 0 && drives > 0);
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
  TARN_CHECK(at == ids_.end() || *at != id);
  const auto index = at - ids_.begin();
  ids_.insert(at, std::move(id));
  candidates_.insert(candidates_.begin() + index, Candidate{digest, weight});
  drives_.insert(drives_.begin() + index, drives);
}

bool NodeSet::contains(std::string_view id) const {
  return std::binary_search(ids_.begin(), ids_.end(), id);
}

const std::string& NodeSet::owner(std::uint64_t name_digest) const {
  static const std::string nobody;
  return empty() ? nobody : ids_[placement_first(candidates_, name_digest)];
}

std::vector<Home> NodeSet::homes(std::uint64_t name_digest, std::size_t pieces) const {
  std::vector<Home> out;
  if (empty() || pieces == 0) return out;
  if (pieces == 1) return {{placement_first(candidates_, name_digest), 0}};
  // While there are enough nodes nobody has a second piece.
  const auto order = placement_order(candidates_, name_digest, pieces);
  bool any = true;
  for (std::uint32_t drive = 0; any && out.size() < pieces; ++drive) {
    any = false;
    for (const std::size_t node : order) {
      if (drives_[node] <= drive || out.size() == pieces) continue;
      out.push_back({node, drive});
      any = true;
    }
  }
  return out;
}

bool NodeSet::is_home(std::string_view id, std::uint64_t name_digest, std::size_t pieces) const {
  if (pieces == 1) return !empty() && owner(name_digest) == id;
  const auto all = homes(name_digest, pieces);
  return std::any_of(all.begin(), all.end(),
                     [&](const Home& home) { return ids_[home.node] == id; });
}

bool NodeSet::operator==(const NodeSet& other) const {
  const auto same = [](const Candidate& a, const Candidate& b) {
    return a.digest == b.digest && a.weight == b.weight;
  };
  return ids_ == other.ids_ && drives_ == other.drives_ &&
         std::equal(candidates_.begin(), candidates_.end(), other.candidates_.begin(),
                    other.candidates_.end(), same);
}

}  // namespace tarn::cluster
