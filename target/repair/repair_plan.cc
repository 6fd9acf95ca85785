#include "target/repair/repair_plan.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/cluster/place/slice_plan.h"

namespace tarn::target {

namespace {

/// The target that is to make the full copy, if that is missing and another than `self`.
std::string full_copy_is_for(const cluster::NodeSet& standing, std::uint64_t name_digest,
                             const SliceReport& report, const std::string& self) {
  if (report.coding.layout != io::Coding::Layout::whole || report.full_copy != SliceState::missing)
    return "";
  const auto owner = standing.replicas(name_digest, 1);
  if (owner.empty() || standing.id(owner.front().node) == self) return "";
  return standing.id(owner.front().node);
}

/// True if `self` is where the full copy belongs, and it is not there.
bool wants_full_copy(const cluster::NodeSet& standing, std::uint64_t name_digest,
                     const SliceReport& report, const std::string& self) {
  const io::Coding& coding = report.coding;
  return coding.layout == io::Coding::Layout::whole &&
         is_holder_of_full_copy(standing, name_digest, self) &&
         (coding.full_copy != self || report.full_copy == SliceState::missing);
}

}  // namespace

std::size_t slices_left(const io::Coding& coding, std::size_t good, bool has_full_copy) {
  const std::size_t slices = good + (has_full_copy ? 1 : 0);
  return slices > coding.k ? slices - coding.k : 0;
}

bool is_holder_of_full_copy(const cluster::NodeSet& standing, std::uint64_t name_digest,
                            const std::string& self) {
  const auto owner = standing.replicas(name_digest, 1);
  return !owner.empty() && standing.id(owner.front().node) == self;
}

Repair plan_repair(const cluster::NodeSet& standing, std::uint64_t name_digest,
                   const SliceReport& report, const std::string& self,
                   const std::function<bool(const std::string&)>& takes) {
  const io::Coding& coding = report.coding;
  TARN_CHECK(report.states.size() == coding.holders.size());
  Repair out;
  cluster::SliceNeeds needs;
  needs.name_digest = name_digest;
  needs.slices = coding.holders.size();
  needs.after_owner = coding.layout == io::Coding::Layout::whole;
  needs.holders = coding.holders;
  needs.takes = takes;
  for (std::size_t i = 0; i < coding.holders.size(); ++i) {
    out.good += report.states[i] == SliceState::good ? 1 : 0;
    out.waiting += report.states[i] == SliceState::waiting ? 1 : 0;
    if (report.states[i] != SliceState::missing) needs.good |= 1U << i;
  }
  out.left = slices_left(coding, out.good, report.full_copy == SliceState::good);
  out.missing = coding.holders.size() - out.good - out.waiting;
  out.lost = out.good + out.waiting < coding.k && report.full_copy == SliceState::missing;
  if (!coding.full_copy.empty() && report.full_copy == SliceState::waiting) ++out.waiting;
  if (coding.layout == io::Coding::Layout::whole && report.full_copy == SliceState::missing)
    ++out.missing;
  const auto places = plan_slices(standing, needs);
  TARN_CHECK(places.size() == coding.holders.size());
  out.placed_worse = stands_worse(standing, needs, places);
  if (out.good < coding.k && report.full_copy != SliceState::good) return out;
  if (wants_full_copy(standing, name_digest, report, self)) out.full_copy = self;
  out.full_copy_is_for = full_copy_is_for(standing, name_digest, report, self);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& place = places[i];
    if (place.id.empty() && report.states[i] == SliceState::missing) ++out.unplaced;
    if (place.id.empty() || report.states[i] == SliceState::waiting) continue;
    SliceGoal goal{static_cast<std::uint8_t>(i), place.id, place.rank};
    if (report.states[i] == SliceState::missing)
      out.anew.push_back(std::move(goal));
    else if (place.id != coding.holders[i])
      out.moves.push_back(std::move(goal));
  }
  out.drop_full_copy = coding.layout == io::Coding::Layout::striped && !coding.full_copy.empty() &&
                       out.good + out.anew.size() == coding.holders.size();
  return out;
}

std::vector<Repair> parts_of(const Repair& repair) {
  Repair none = repair;
  none.anew.clear();
  none.moves.clear();
  none.full_copy.clear();
  none.drop_full_copy = false;
  std::vector<Repair> out;
  if (!repair.anew.empty()) out.emplace_back(none).anew = repair.anew;
  for (const SliceGoal& goal : repair.moves) out.emplace_back(none).moves = {goal};
  if (!repair.full_copy.empty()) out.emplace_back(none).full_copy = repair.full_copy;
  if (out.empty()) out.push_back(std::move(none));
  out.back().drop_full_copy = repair.drop_full_copy;
  return out;
}

}  // namespace tarn::target
