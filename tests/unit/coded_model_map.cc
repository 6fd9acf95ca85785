#include "tests/unit/coded_model_map.h"

#include <algorithm>
#include <bit>

namespace tarn::coded_model {
namespace {

Mask sure_replicas(const PastEpoch& set, int count) {
  return replicas_in(set.nodes, count) & ~set.lost;
}

void forget_repeated(Map& map) {
  std::vector<PastEpoch> kept;
  for (const PastEpoch& set : map.past) {
    const bool repeated = set.nodes == 0 || (set.nodes == map.owns && set.lost == 0) ||
                          std::any_of(kept.begin(), kept.end(), [&](const PastEpoch& newer) {
                            return newer.nodes == set.nodes && newer.lost == set.lost &&
                                   newer.only_for == set.only_for;
                          });
    if (!repeated) kept.push_back(set);
  }
  map.past = std::move(kept);
}

Map next_of(const Map& map) {
  Map next = map;
  ++next.version;
  next.past.insert(next.past.begin(), PastEpoch{map.version, map.owns, 0, 0});
  return next;
}

bool is_given(const PastEpoch& set, int count) {
  return set.only_for != 0 && (replicas_in(set.nodes, count) & ~set.only_for) != 0;
}

bool is_gone(const Map& map, const PastEpoch& set, int target) {
  return has(map.out, target) || has(set.lost, target);
}

/// The target that sends the name to the i-th new replica; -1: none.
int sender(const Map& map, const PastEpoch& set, Mask leavers, Mask stayers, int i) {
  Mask rest = leavers;
  for (; i > 0 && rest != 0; --i) rest &= rest - 1;
  const int leaver = first_of(rest);
  if (leaver >= 0 && !is_gone(map, set, leaver)) return has(map.down, leaver) ? -1 : leaver;
  if (stayers != 0) return first_of(stayers);
  return first_of(leavers & ~map.out & ~set.lost & ~map.down);
}

Mask receivers(const Map& map, const PastEpoch& set, int self, int count, Mask present) {
  const Mask before = replicas_in(set.nodes, count);
  const Mask sure = sure_replicas(set, count);
  const bool is_lost = has(before & set.lost, self);
  if (sure == 0 || is_lost) return present & ~bit(self);
  if (!has(sure, self)) return 0;
  const Mask stayers = sure & present;
  const Mask leavers = before & ~stayers;
  Mask out = 0;
  int i = 0;
  for (Mask fresh = present & ~sure; fresh != 0; fresh &= fresh - 1, ++i)
    if (sender(map, set, leavers, stayers, i) == self) out |= fresh & ~(fresh - 1);
  return out;
}

}  // namespace

Mask replicas_in(Mask set, int count) {
  Mask out = 0;
  for (; set != 0 && count > 0; set &= set - 1, --count) out |= set & ~(set - 1);
  return out;
}

int first_of(Mask set) { return set == 0 ? -1 : std::countr_zero(set); }

Map with_flags(const Map& map, Mask down, Mask out) {
  Map next = next_of(map);
  next.down = down;
  next.out = out;
  next.owns = map.all & ~down & ~out & ~map.aside;
  forget_repeated(next);
  return next;
}

Map with_aside(const Map& map, Mask aside) {
  Map next = next_of(map);
  next.aside = aside;
  next.owns = map.all & ~map.down & ~map.out & ~aside;
  forget_repeated(next);
  return next;
}

Map with_loss(const Map& map, int target) {
  Map next = next_of(map);
  for (PastEpoch& set : next.past)
    if (has(set.nodes, target)) set.lost |= bit(target);
  forget_repeated(next);
  return next;
}

bool forget(Map& map, Mask moved) {
  const std::size_t before = map.past.size();
  std::erase_if(map.past, [&](const PastEpoch& set) {
    return (set.nodes & ~moved) == 0 && (set.lost == 0 || (map.all & ~moved) == 0);
  });
  bool changed = map.past.size() != before;
  const Mask gone = map.out & ~moved;
  if (!changed && (map.all & ~moved & ~gone) == 0) {
    for (PastEpoch& set : map.past) {
      if (set.only_for != 0) continue;
      set.only_for = set.lost | (gone & set.nodes);
      changed = changed || set.only_for != 0;
    }
  }
  if (changed) ++map.version;
  return changed;
}

std::vector<Group> readers_of(const Map& map, int self, int count, std::uint64_t found) {
  std::vector<Group> out;
  for (const PastEpoch& set : map.past) {
    if (found > set.last) break;
    if (is_given(set, count)) continue;
    Group group{set.last, sure_replicas(set, count), false};
    if (group.replicas == 0) {
      group.all_needed = true;
      group.replicas = map.all & ~bit(self);
    } else if (has(group.replicas, self)) {
      continue;
    }
    const bool asked = std::any_of(out.begin(), out.end(), [&](const Group& newer) {
      return newer.replicas == group.replicas && newer.all_needed == group.all_needed;
    });
    if (!asked) out.push_back(group);
  }
  return out;
}

Plan plan_name(const Map& map, int self, int count) {
  const Mask present = replicas_in(map.owns, count);
  Plan plan;
  plan.keep = has(present, self);
  for (const PastEpoch& set : map.past) plan.send |= receivers(map, set, self, count, present);
  if (plan.keep) return plan;
  if (plan.send == 0) plan.send = present & ~(present - 1);
  plan.confirm = present & ~plan.send;
  return plan;
}

}  // namespace tarn::coded_model
