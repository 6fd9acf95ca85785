#include "target/upstream/eviction_plan.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"
#include "target/drive/space_rules.h"

namespace tarn::target {
namespace {

std::uint64_t less(std::uint64_t from, std::uint64_t what) { return from > what ? from - what : 0; }

/// Bytes to free so that, with `more` bytes, a drive is used up to `percent` at most.
std::uint64_t down_to(const io::Space& now, double percent, std::uint64_t more) {
  const auto level = static_cast<std::uint64_t>(static_cast<double>(now.total) * percent / 100);
  return less(less(now.total, now.free) + more, level);
}

double low_of(const SpaceLimits& limits) {
  return std::min(limits.low_watermark, limits.high_watermark);
}

}  // namespace

EvictionGoal eviction_goal(const io::Space& now, const SpaceLimits& limits, EvictionCause cause) {
  EvictionGoal goal;
  const bool is_above = down_to(now, limits.high_watermark, 0) > 0;
  if (!is_above && cause == EvictionCause::watermark) return goal;
  goal.bytes = down_to(now, low_of(limits), 0);
  const bool is_full = !has_room(now, limits, 0, limits.out_of_space);
  if (is_full) goal.protected_bytes = down_to(now, limits.high_watermark, 0);
  TARN_CHECK(goal.protected_bytes <= goal.bytes);
  return goal;
}

EvictionGoal eviction_goal_for(const io::Space& now, const SpaceLimits& limits,
                               std::uint64_t wanted) {
  const io::Space empty{now.total, now.total};
  if (!has_room(empty, limits, wanted, limits.out_of_space)) return {};
  const auto reserve = static_cast<std::uint64_t>(reserve_of(now, limits));
  EvictionGoal goal;
  goal.least =
      std::max(down_to(now, limits.out_of_space, wanted), less(reserve + wanted, now.free));
  goal.protected_bytes = std::max(down_to(now, limits.high_watermark, wanted), goal.least);
  goal.bytes = std::max(down_to(now, low_of(limits), wanted), goal.protected_bytes);
  return goal;
}

std::size_t EvictionPlan::bin_of(std::uint32_t age) {
  const auto width = static_cast<unsigned>(std::bit_width(age));
  const unsigned shift = width > kStepBits + 1 ? width - kStepBits - 1 : 0;
  return (static_cast<std::size_t>(shift) << kStepBits) + (age >> shift);
}

void EvictionPlan::add(const EvictionCandidate& candidate) {
  Ages& ages = candidate.is_protected ? protected_ : free_;
  TARN_CHECK(bin_of(candidate.age) < ages.bytes.size());
  ages.bytes[bin_of(candidate.age)] += candidate.bytes;
  ages.sum += candidate.bytes;
}

/// Goes from the oldest to where `wanted` bytes are together.
void EvictionPlan::Ages::choose(std::uint64_t wanted) {
  while (wanted > 0 && cut > 0) {
    --cut;
    rest = std::min(wanted, bytes[cut]);
    wanted -= rest;
  }
  TARN_CHECK(cut == bytes.size() || rest <= bytes[cut]);
}

bool EvictionPlan::settle(const EvictionGoal& goal) {
  if (candidate_bytes() < goal.least) return false;
  free_.choose(goal.bytes);
  protected_.choose(less(goal.protected_bytes, free_.sum));
  return (goal.bytes > 0 && free_.sum > 0) ||
         (goal.protected_bytes > free_.sum && protected_.sum > 0);
}

bool EvictionPlan::take(const EvictionCandidate& candidate) {
  Ages& ages = candidate.is_protected ? protected_ : free_;
  const std::size_t bin = bin_of(candidate.age);
  if (bin != ages.cut) return bin > ages.cut;
  if (ages.rest == 0) return false;
  // The last one may be larger than what is left: rather too much than too little.
  ages.rest = less(ages.rest, candidate.bytes);
  return true;
}

std::uint64_t EvictionPlan::candidate_bytes() const { return free_.sum + protected_.sum; }

}  // namespace tarn::target
