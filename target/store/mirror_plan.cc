#include "target/store/mirror_plan.h"

#include <algorithm>

#include "common/base/check.h"

namespace tarn::target {

CopyVerdict judge_copies(const CopyViews& views, std::size_t surely) {
  CopyVerdict verdict;
  std::size_t away = 0;
  std::optional<Generation> newest;
  for (const CopyView& view : views) {
    if (view.standing == Standing::away) {
      ++away;
    } else if (view.record && (!newest || *newest < view.record->generation)) {
      newest = view.record->generation;
    }
  }
  if (!newest) {
    if (away > 0 && away >= surely) verdict.kind = CopyVerdict::Kind::unavailable;
    return verdict;
  }
  verdict.newest = *newest;
  bool believed = away == 0;
  bool live = false;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const CopyView& view = views[i];
    if (view.standing == Standing::away || !view.record) continue;
    if (view.record->generation < *newest) {
      verdict.older.push_back(i);
      continue;
    }
    verdict.holders.push_back(i);
    live = view.record->live;
    believed = believed || view.standing == Standing::good;
  }
  TARN_CHECK(!verdict.holders.empty());
  verdict.kind = !believed ? CopyVerdict::Kind::unavailable
                 : live    ? CopyVerdict::Kind::found
                           : CopyVerdict::Kind::none;
  return verdict;
}

CopyPlan plan_copies(const CopyViews& views, const CopyVerdict& verdict, std::size_t wanted) {
  CopyPlan plan;
  if (verdict.kind != CopyVerdict::Kind::found) return plan;
  std::vector<std::size_t> stay;
  std::vector<std::size_t> leave;
  for (const std::size_t i : verdict.holders) (views[i].leaves ? leave : stay).push_back(i);
  const std::size_t there = stay.size();
  for (std::size_t i = wanted; i < there; ++i)
    plan.remove.push_back(stay[there - 1 - (i - wanted)]);
  if (there >= wanted) plan.remove.insert(plan.remove.end(), leave.begin(), leave.end());
  std::size_t have = there;
  for (std::size_t i = 0; i < views.size() && have < wanted; ++i) {
    const bool holds =
        std::find(verdict.holders.begin(), verdict.holders.end(), i) != verdict.holders.end();
    if (holds || views[i].standing == Standing::away || !views[i].takes) continue;
    plan.add.push_back(i);
    ++have;
  }
  plan.missing = have < wanted ? wanted - have : 0;
  // One copy stays of a name that is wanted, whatever leaves.
  TARN_CHECK(wanted == 0 || plan.remove.size() < verdict.holders.size());
  return plan;
}

}  // namespace tarn::target
