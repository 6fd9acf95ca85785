#include "common/cluster/place/slice_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <utility>

namespace tarn::cluster {
namespace {

/// The zone of a target; none if it does not stand, or placement uses no zones.
std::optional<std::string> zone_of(const NodeSet& standing, const std::string& id) {
  if (standing.zones() < 2) return std::nullopt;
  const auto indexes = std::views::iota(std::size_t{0}, standing.size());
  const auto at = std::ranges::lower_bound(
      indexes, id, {}, [&](std::size_t i) -> const auto& { return standing.id(i); });
  if (at == indexes.end() || standing.id(*at) != id) return std::nullopt;
  return standing.zone(*at);
}

/// The zone of the full copy; none if an object is in slices only.
std::optional<std::string> zone_of_full_copy(const NodeSet& standing, const SliceNeeds& needs) {
  if (!needs.after_owner) return std::nullopt;
  return zone_of(standing, standing.owner(needs.name_digest));
}

/// Indexes of targets, one for each slice, the best place first.
std::vector<std::size_t> wanted_places(const NodeSet& standing, const SliceNeeds& needs) {
  auto replicas = standing.replicas(needs.name_digest, needs.slices + (needs.after_owner ? 1 : 0));
  if (needs.after_owner && replicas.size() > needs.slices) replicas.erase(replicas.begin());
  if (replicas.size() > needs.slices) replicas.resize(needs.slices);
  std::vector<std::size_t> out;
  out.reserve(replicas.size());
  for (const Replica& replica : replicas) out.push_back(replica.node);
  return out;
}

/// One object's places, filled one after the other.
class Planner {
 public:
  Planner(const NodeSet& standing, const SliceNeeds& needs)
      : standing_(standing),
        needs_(needs),
        free_(wanted_places(standing, needs)),
        chosen_(needs.slices) {
    if (const auto zone = zone_of_full_copy(standing, needs)) ++in_zone_[*zone];
  }

  std::vector<SlicePlace> run() {
    // Good ones first: of several at one target those that are lost go rather than those that are
    // there.
    for (const bool good : {true, false})
      for (std::size_t i = 0; i < needs_.slices; ++i)
        if (is_good(i) == good) keep(i);
    for (std::size_t i = 0; i < needs_.slices; ++i)
      if (!chosen_[i]) take_free_place(i);
    for (const bool good : {true, false})
      for (std::size_t i = 0; i < needs_.slices; ++i)
        if (!chosen_[i] && is_good(i) == good) take_other_place(i);
    return places();
  }

 private:
  [[nodiscard]] bool is_good(std::size_t slice) const { return (needs_.good >> slice & 1U) != 0; }
  [[nodiscard]] const std::string& holder(std::size_t slice) const {
    static const std::string nobody;
    return needs_.holders.empty() ? nobody : needs_.holders[slice];
  }
  [[nodiscard]] bool takes(std::size_t node) const { return needs_.takes(standing_.id(node)); }

  void choose(std::size_t slice, const std::string& id) {
    chosen_[slice] = id;
    ++count_[id];
    if (const auto zone = zone_of(standing_, id)) ++in_zone_[*zone];
  }

  /// Stays, when its target is a wanted one; one that is lost only when it can be made again there.
  void keep(std::size_t slice) {
    const auto at = std::find_if(free_.begin(), free_.end(), [&](std::size_t node) {
      return standing_.id(node) == holder(slice);
    });
    if (at == free_.end() || (!is_good(slice) && !takes(*at))) return;
    choose(slice, holder(slice));
    free_.erase(at);
  }

  void take_free_place(std::size_t slice) {
    const auto at =
        std::find_if(free_.begin(), free_.end(), [&](std::size_t node) { return takes(node); });
    if (at == free_.end()) return;
    choose(slice, standing_.id(*at));
    free_.erase(at);
  }

  /// No wanted place can be taken.
  void take_other_place(std::size_t slice) {
    if (is_good(slice) && !holder(slice).empty()) return choose(slice, holder(slice));
    std::optional<std::size_t> best;
    const auto has = [&](std::size_t node) { return count_[standing_.id(node)]; };
    const auto rank = [&](std::size_t node) {
      return std::pair(in_zone_[standing_.zone(node)], has(node));
    };
    for (const std::size_t node : standing_.order(needs_.name_digest)) {
      if (has(node) >= standing_.drives(node) || !takes(node)) continue;
      if (!best || rank(node) < rank(*best)) best = node;
    }
    if (best) choose(slice, standing_.id(*best));
  }

  [[nodiscard]] std::vector<SlicePlace> places() const {
    std::map<std::string, std::uint32_t> ranks;
    std::vector<SlicePlace> out;
    out.reserve(chosen_.size());
    for (const auto& id : chosen_) out.push_back(id ? SlicePlace{*id, ranks[*id]++} : SlicePlace{});
    return out;
  }

  const NodeSet& standing_;
  const SliceNeeds& needs_;
  std::vector<std::size_t> free_;  // wanted places that no slice has yet, best first
  std::vector<std::optional<std::string>> chosen_;
  std::map<std::string, std::uint32_t> count_;
  std::map<std::string, std::uint32_t> in_zone_;
};

/// Numbers of slices at one target, or in one zone, the largest first.
std::vector<std::size_t> together(const std::vector<std::string>& places) {
  std::map<std::string, std::size_t> count;
  for (const std::string& id : places) ++count[id];
  std::vector<std::size_t> out;
  out.reserve(count.size());
  for (const auto& [id, its] : count) out.push_back(its);
  std::sort(out.rbegin(), out.rend());
  return out;
}

/// The zones of those of `targets` that stand, and of the whole object where there is one.
std::vector<std::string> zones_of(const NodeSet& standing, const SliceNeeds& needs,
                                  const std::vector<std::string>& targets) {
  std::vector<std::string> out;
  for (const std::string& id : targets)
    if (const auto zone = zone_of(standing, id)) out.push_back(*zone);
  if (const auto zone = zone_of_full_copy(standing, needs)) out.push_back(*zone);
  return out;
}

/// Number of `groups`, with so many slices each, the largest first, that may go: `spare` slices
/// may, and one group of all `groups_max` must stay, since a record is to be left.
std::size_t groups_to_spare(const std::vector<std::size_t>& groups, std::size_t groups_max,
                            std::size_t spare) {
  std::size_t out = 0;
  std::size_t lost = 0;
  for (const std::size_t slices : groups) {
    lost += slices;
    if (lost > spare || out + 1 >= groups_max) break;
    ++out;
  }
  return out;
}

}  // namespace

NodeSet standing_members(const Ownership& map) {
  NodeSet out;
  const bool has_zones = zones_in_use(map.members);
  for (const Member& member : map.members)
    if ((member.flags & (kMaintenance | kDecommission | kOut)) == 0)
      out.add(member.id, member.digest, member.weight, member.drives, has_zones ? member.zone : "");
  return out;
}

std::vector<SlicePlace> plan_slices(const NodeSet& standing, const SliceNeeds& needs) {
  return Planner(standing, needs).run();
}

bool stands_worse(const NodeSet& standing, const SliceNeeds& needs,
                  std::span<const SlicePlace> places) {
  std::vector<std::string> wanted;
  std::vector<std::string> chosen;
  for (const std::size_t node : wanted_places(standing, needs)) wanted.push_back(standing.id(node));
  for (const SlicePlace& place : places) chosen.push_back(place.id);
  const bool all = std::none_of(chosen.begin(), chosen.end(), [](auto& id) { return id.empty(); });
  return !all || together(chosen) > together(wanted) ||
         together(zones_of(standing, needs, chosen)) > together(zones_of(standing, needs, wanted));
}

SliceReach slice_reach(const NodeSet& standing, std::size_t k, std::size_t m, bool after_owner) {
  SliceReach reach;
  for (std::size_t i = 0; i < standing.size(); ++i) reach.drives += standing.drives(i);
  if (reach.drives < k + m) return reach;
  SliceNeeds needs{.name_digest = 0,
                   .slices = k + m,
                   .after_owner = after_owner,
                   .holders = {},
                   .good = 0,
                   .takes = [](const std::string&) { return true; }};
  const auto targets_of = [&] {
    std::vector<std::string> out;
    for (const SlicePlace& place : plan_slices(standing, needs)) out.push_back(place.id);
    return out;
  };
  reach.nodes = groups_to_spare(together(targets_of()), standing.size(), m);
  if (standing.zones() < 2) return reach;
  // If zones are not of one size, the zone of the owner matters. One slice more may go where there
  // is the full copy, but not one record more than m.
  constexpr std::uint64_t kNames = 64;
  reach.zones = m;
  for (; needs.name_digest < kNames; ++needs.name_digest)
    reach.zones =
        std::min(*reach.zones, groups_to_spare(together(zones_of(standing, needs, targets_of())),
                                               standing.zones(), m + (after_owner ? 1 : 0)));
  return reach;
}

}  // namespace tarn::cluster
