#include "target/repair/repair_plan.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/cluster/place/slice_plan.h"

namespace tarn::target {

namespace {

/// The target that is to make the whole, if that is missing and another than `self`.
std::string whole_is_for(const cluster::NodeSet& standing, std::uint64_t name_digest,
                         const SliceReport& report, const std::string& self) {
  if (report.coding.layout != io::Coding::Layout::whole || report.whole != SliceState::missing)
    return "";
  const auto owner = standing.homes(name_digest, 1);
  if (owner.empty() || standing.id(owner.front().node) == self) return "";
  return standing.id(owner.front().node);
}

/// True if `self` is where the whole belongs, and it is not there.
bool wants_whole(const cluster::NodeSet& standing, std::uint64_t name_digest,
                 const SliceReport& report, const std::string& self) {
  const io::Coding& coding = report.coding;
  return coding.layout == io::Coding::Layout::whole &&
         is_home_of_whole(standing, name_digest, self) &&
         (coding.whole != self || report.whole == SliceState::missing);
}

}  // namespace

std::size_t slices_left(const io::Coding& coding, std::size_t good, bool has_whole) {
  const std::size_t slices = good + (has_whole ? 1 : 0);
  return slices > coding.k ? slices - coding.k : 0;
}

bool is_home_of_whole(const cluster::NodeSet& standing, std::uint64_t name_digest,
                      const std::string& self) {
  const auto owner = standing.homes(name_digest, 1);
  return !owner.empty() && standing.id(owner.front().node) == self;
}

Repair plan_repair(const cluster::NodeSet& standing, std::uint64_t name_digest,
                   const SliceReport& report, const std::string& self,
                   const std::function<bool(const std::string&)>& takes) {
  const io::Coding& coding = report.coding;
  TARN_CHECK(report.states.size() == coding.homes.size());
  Repair out;
  cluster::SliceNeeds needs;
  needs.name_digest = name_digest;
  needs.slices = coding.homes.size();
  needs.after_owner = coding.layout == io::Coding::Layout::whole;
  needs.homes = coding.homes;
  needs.takes = takes;
  for (std::size_t i = 0; i < coding.homes.size(); ++i) {
    out.good += report.states[i] == SliceState::good ? 1 : 0;
    out.waiting += report.states[i] == SliceState::waiting ? 1 : 0;
    if (report.states[i] != SliceState::missing) needs.good |= 1U << i;
  }
  out.left = slices_left(coding, out.good, report.whole == SliceState::good);
  out.missing = coding.homes.size() - out.good - out.waiting;
  out.lost = out.good + out.waiting < coding.k && report.whole == SliceState::missing;
  if (!coding.whole.empty() && report.whole == SliceState::waiting) ++out.waiting;
  if (coding.layout == io::Coding::Layout::whole && report.whole == SliceState::missing)
    ++out.missing;
  const auto places = plan_slices(standing, needs);
  TARN_CHECK(places.size() == coding.homes.size());
  out.placed_worse = stands_worse(standing, needs, places);
  if (out.good < coding.k && report.whole != SliceState::good) return out;
  if (wants_whole(standing, name_digest, report, self)) out.whole = self;
  out.whole_is_for = whole_is_for(standing, name_digest, report, self);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& place = places[i];
    if (place.id.empty() && report.states[i] == SliceState::missing) ++out.unplaced;
    if (place.id.empty() || report.states[i] == SliceState::waiting) continue;
    SliceGoal goal{static_cast<std::uint8_t>(i), place.id, place.rank};
    if (report.states[i] == SliceState::missing)
      out.anew.push_back(std::move(goal));
    else if (place.id != coding.homes[i])
      out.moves.push_back(std::move(goal));
  }
  out.drop_whole = coding.layout == io::Coding::Layout::striped && !coding.whole.empty() &&
                   out.good + out.anew.size() == coding.homes.size();
  return out;
}

std::vector<Repair> parts_of(const Repair& repair) {
  Repair none = repair;
  none.anew.clear();
  none.moves.clear();
  none.whole.clear();
  none.drop_whole = false;
  std::vector<Repair> out;
  if (!repair.anew.empty()) out.emplace_back(none).anew = repair.anew;
  for (const SliceGoal& goal : repair.moves) out.emplace_back(none).moves = {goal};
  if (!repair.whole.empty()) out.emplace_back(none).whole = repair.whole;
  if (out.empty()) out.push_back(std::move(none));
  out.back().drop_whole = repair.drop_whole;
  return out;
}

}  // namespace tarn::target
