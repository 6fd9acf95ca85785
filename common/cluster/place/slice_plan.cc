#include "common/cluster/place/slice_plan.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tarn::cluster {
namespace {

/// Indexes of targets, one for each slice, the best place first.
std::vector<std::size_t> wanted_places(const NodeSet& standing, const SliceNeeds& needs) {
  auto homes = standing.homes(needs.name_digest, needs.slices + (needs.after_owner ? 1 : 0));
  if (needs.after_owner && homes.size() > needs.slices) homes.erase(homes.begin());
  if (homes.size() > needs.slices) homes.resize(needs.slices);
  std::vector<std::size_t> out;
  for (const Home& home : homes) out.push_back(home.node);
  return out;
}

/// One object's places, filled one after the other.
class Planner {
 public:
  Planner(const NodeSet& standing, const SliceNeeds& needs)
      : standing_(standing),
        needs_(needs),
        free_(wanted_places(standing, needs)),
        chosen_(needs.slices) {}

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
  [[nodiscard]] const std::string& home(std::size_t slice) const {
    static const std::string nobody;
    return needs_.homes.empty() ? nobody : needs_.homes[slice];
  }
  [[nodiscard]] bool takes(std::size_t node) const { return needs_.takes(standing_.id(node)); }

  void choose(std::size_t slice, const std::string& id) {
    chosen_[slice] = id;
    ++count_[id];
  }

  /// Stays, when its target is a wanted one; one that is lost only when it can be made again there.
  void keep(std::size_t slice) {
    const auto at = std::find_if(free_.begin(), free_.end(), [&](std::size_t node) {
      return standing_.id(node) == home(slice);
    });
    if (at == free_.end() || (!is_good(slice) && !takes(*at))) return;
    choose(slice, home(slice));
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
    if (is_good(slice) && !home(slice).empty()) return choose(slice, home(slice));
    std::optional<std::size_t> best;
    const auto has = [&](std::size_t node) { return count_[standing_.id(node)]; };
    for (const Home& each : standing_.homes(needs_.name_digest, standing_.size())) {
      const std::size_t node = each.node;
      if (has(node) >= standing_.drives(node) || !takes(node)) continue;
      if (!best || has(node) < has(*best)) best = node;
    }
    if (best) choose(slice, standing_.id(*best));
  }

  [[nodiscard]] std::vector<SlicePlace> places() const {
    std::map<std::string, std::uint32_t> ranks;
    std::vector<SlicePlace> out;
    for (const auto& id : chosen_) out.push_back(id ? SlicePlace{*id, ranks[*id]++} : SlicePlace{});
    return out;
  }

  const NodeSet& standing_;
  const SliceNeeds& needs_;
  std::vector<std::size_t> free_;  // wanted places that no slice has yet, best first
  std::vector<std::optional<std::string>> chosen_;
  std::map<std::string, std::uint32_t> count_;
};

/// How many lie together at one target, the most first.
std::vector<std::size_t> together(const std::vector<std::string>& targets) {
  std::map<std::string, std::size_t> count;
  for (const std::string& id : targets) ++count[id];
  std::vector<std::size_t> out;
  for (const auto& [id, its] : count) out.push_back(its);
  std::sort(out.rbegin(), out.rend());
  return out;
}

}  // namespace

NodeSet standing_members(const Ownership& map) {
  NodeSet out;
  for (const Member& member : map.members)
    if ((member.flags & (kMaintenance | kDecommission | kOut)) == 0)
      out.add(member.id, member.digest, member.weight, member.drives);
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
  return !all || together(chosen) > together(wanted);
}

SliceReach slice_reach(const NodeSet& standing, std::size_t k, std::size_t m, bool after_owner) {
  SliceReach reach;
  for (std::size_t i = 0; i < standing.size(); ++i) reach.drives += standing.drives(i);
  if (reach.drives < k + m) return reach;
  const SliceNeeds needs{.name_digest = 0,
                         .slices = k + m,
                         .after_owner = after_owner,
                         .homes = {},
                         .good = 0,
                         .takes = [](const std::string&) { return true; }};
  std::vector<std::string> chosen;
  for (const SlicePlace& place : plan_slices(standing, needs)) chosen.push_back(place.id);
  std::size_t lost = 0;
  for (const std::size_t slices : together(chosen)) {
    lost += slices;
    if (lost > m || reach.nodes + 1 >= standing.size()) break;  // a record is to be left, too
    ++reach.nodes;
  }
  return reach;
}

}  // namespace tarn::cluster
