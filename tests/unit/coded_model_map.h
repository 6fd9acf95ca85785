#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// The map of the model of coded objects: what ownership.h and rebalance_plan.h decide for one
/// name. Its HRW order is that of the targets' numbers, and sets of targets are bits. It is written
/// anew, and not called, because a schedule makes some hundred maps.
namespace tarn::coded_model {

/// A set of targets, by number.
using Mask = std::uint32_t;

[[nodiscard]] constexpr Mask bit(int target) { return Mask{1} << static_cast<unsigned>(target); }
[[nodiscard]] constexpr bool has(Mask mask, int target) { return (mask & bit(target)) != 0; }
/// The first `count` of a set: the replicas of the name.
[[nodiscard]] Mask replicas_in(Mask set, int count);
/// The first of a set, -1 of none.
[[nodiscard]] int first_of(Mask set);

/// PastEpoch of ownership.h.
struct PastEpoch {
  std::uint64_t last = 0;
  Mask nodes = 0;
  Mask lost = 0;
  Mask only_for = 0;
};

/// Ownership of ownership.h. All targets are members for ever.
struct Map {
  std::uint64_t version = 1;
  Mask all = 0;
  Mask owns = 0;
  // Targets that do not own, and why.
  Mask out = 0;
  Mask down = 0;
  Mask aside = 0;  ///< alive: an operator wants it so
  std::vector<PastEpoch> past;
};

/// The next map, in which others own.
[[nodiscard]] Map with_flags(const Map& map, Mask down, Mask out);
[[nodiscard]] Map with_aside(const Map& map, Mask aside);
/// The next map, in which `target` is not believed to have what it had.
[[nodiscard]] Map with_loss(const Map& map, int target);
/// Forgets what the past is not needed for. `moved`: who holds nothing of others. False: nothing
/// to forget.
[[nodiscard]] bool forget(Map& map, Mask moved);

/// ReadGroup of ownership.h.
struct Group {
  std::uint64_t last = 0;
  Mask replicas = 0;
  bool all_needed = false;

  bool operator==(const Group&) const = default;
};
/// readers_of() of ownership.h. `count`: of the replicas of a name.
[[nodiscard]] std::vector<Group> readers_of(const Map& map, int self, int count,
                                            std::uint64_t found);

/// NamePlan of rebalance_plan.h.
struct Plan {
  bool keep = false;
  Mask send = 0;
  Mask confirm = 0;
};
[[nodiscard]] Plan plan_name(const Map& map, int self, int count);

}  // namespace tarn::coded_model
