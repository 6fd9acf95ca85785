// The cluster of the model: maps, leases, disks, messages. The work of targets is in
// coded_model_ops.cc.

#include "tests/unit/coded_model.h"

#include <algorithm>
#include <utility>

namespace tarn::coded_model {
namespace {

/// True if `self` owned the name in `map` and in every version from `since` on.
bool owned_since(const Map& map, int self, std::uint64_t since) {
  if (first_of(map.owns) != self) return false;
  return std::all_of(map.past.begin(), map.past.end(), [&](const PastEpoch& set) {
    return set.last < since || first_of(set.nodes) == self;
  });
}

}  // namespace

World::World(Shape shape, Rules rules, std::uint64_t seed)
    : shape_(shape), rules_(rules), random_(seed) {
  targets_.resize(static_cast<std::size_t>(shape.targets));
  State first;
  first.map.all = bit(shape.targets) - 1;
  first.map.owns = first.map.all;
  first.settled = first.map.version;
  states_.push_back(first);
  for (Target& target : targets_) target.lease = target.lease_in_store = ++leases_;
}

void World::fail(std::string what) {
  if (wrong_.empty()) wrong_ = std::move(what);
}

void World::note(const char* text, int a, int b, Gen g) {
  if (!tracing_) return;
  std::string line = text;
  if (a != kNobody) line += " t" + std::to_string(a);
  if (b != kNobody) line += " " + std::to_string(b);
  if (g != 0)
    line += " g" + std::to_string(g >> kVersionShift) + "." + std::to_string(g & 0xffffffff);
  trace_.push_back(std::move(line));
}

std::string World::trace() const {
  std::string out;
  for (const std::string& line : trace_) out += line + "\n";
  return out;
}

/// splitmix64: a schedule must not pay for the 624 words of a twister.
std::uint64_t World::random() {
  random_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = random_;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
  return z ^ (z >> 31U);
}

int World::pick_of(Mask mask) {
  int left = 0;
  for (Mask rest = mask; rest != 0; rest &= rest - 1) ++left;
  if (left == 0) return kNobody;
  for (int skip = pick(left); skip > 0; --skip) mask &= mask - 1;
  return first_of(mask);
}

// --- the cluster ---

void World::learn(int target, std::size_t state) {
  Target& self = at(target);
  if (state <= self.known) return;
  const bool other_map = states_[state].map.version != map_of(target).version;
  self.known = state;
  const Map& map = map_of(target);
  if (self.lossy_until <= map.version) self.lossy_until = 0;
  if (!other_map) return;
  for (Op& op : ops_) {
    if (op.at != target || op.lease == 0) continue;
    op.older = op.older || op.committing;
    if (op.moved) continue;
    op.moved = !owned_since(map, target, op.map);
    if (!op.moved) op.map = map.version;
  }
}

void World::publish(Map map) {
  note("publish", kNobody, static_cast<int>(map.version), map.owns);
  states_.push_back({std::move(map), now().settled});
}

void World::take_lease(int target) {
  Target& self = at(target);
  if (!self.up) return;
  self.lease = self.lease_in_store = ++leases_;
  self.moved = 0;
  const Map& map = now().map;
  if (has(map.down | map.out, target))
    publish(with_flags(map, map.down & ~bit(target), map.out & ~bit(target)));
  learn(target, states_.size() - 1);
  note("lease", target);
}

void World::end_lease(int target) {
  Target& self = at(target);
  self.lease = self.lease_in_store = 0;
  note("no lease", target);
}

bool World::settle_version() {
  const Map& map = now().map;
  if (now().settled >= map.version) return false;
  for (int t = 0; t < shape_.targets; ++t)
    if (at(t).lease_in_store != 0 && map_of(t).version < map.version) return false;
  State next = now();
  next.settled = map.version;
  note("settled", kNobody, static_cast<int>(map.version));
  states_.push_back(std::move(next));
  return true;
}

/// One thing that the coordinator finds to do.
void World::coordinate() {
  if (settle_version()) return;
  const Map& map = now().map;
  for (int t = 0; t < shape_.targets; ++t) {
    Target& self = at(t);
    if (self.lease == 0 && self.lease_in_store != 0) {
      if (chance(50)) self.lease_in_store = 0;
      return;
    }
    if (self.lease_in_store != 0 && self.lossy_until == kUnknown) {
      publish(with_loss(map, t));
      self.lossy_until = now().map.version;
      return;
    }
    if (self.lease_in_store != 0) continue;
    if (!has(map.down, t) && others_own(t)) {
      publish(with_flags(map, map.down | bit(t), map.out));
      return;
    }
    if (has(map.down, t) && !has(map.out, t) && chance(30)) {
      publish(with_flags(map, map.down, map.out | bit(t)));
      return;
    }
  }
  Mask moved = 0;
  for (int t = 0; t < shape_.targets; ++t)
    if (at(t).lease_in_store != 0 && at(t).moved >= map.version) moved |= bit(t);
  Map next = map;
  if (forget(next, moved)) publish(std::move(next));
}

/// No record of the name is on its way to a disk of this target.
bool World::is_quiescent(int target) const {
  return std::none_of(ops_.begin(), ops_.end(),
                      [&](const Op& op) { return op.at == target && op.committing; });
}

bool World::may_begin(int target) const {
  const Target& self = targets_[static_cast<std::size_t>(target)];
  const State& state = state_of(target);
  if (!self.up || self.lease == 0 || self.lossy_until != 0) return false;
  if (first_of(state.map.owns) != target) return false;
  return std::none_of(state.map.past.begin(), state.map.past.end(), [&](const PastEpoch& set) {
    return state.settled <= set.last && first_of(set.nodes) != target;
  });
}

bool World::former_replicas_know(int target) const {
  const State& state = state_of(target);
  const Mask replicas = replicas_in(state.map.owns, shape_.copies());
  return std::all_of(state.map.past.begin(), state.map.past.end(), [&](const PastEpoch& set) {
    return state.settled > set.last || (replicas_in(set.nodes, shape_.copies()) & ~replicas) == 0;
  });
}

/// ClusterView::at_least().
void World::catch_up(int target, std::uint64_t map) {
  for (std::size_t s = states_.size(); s-- > 0 && map_of(target).version < map;)
    if (states_[s].map.version == map) learn(target, s);
}

/// True if a record that was sent by the map of version `map` is taken.
bool World::accepts(int target, std::uint64_t map) {
  catch_up(target, map);
  if (map < map_of(target).version) return false;
  return has(replicas_in(map_of(target).owns, shape_.copies()), target);
}

/// Erases the record of a target that is no replica when all replicas have one as new, pending or
/// not.
bool World::erase_when_all_have_it(int target) {
  Target& self = at(target);
  const Mask replicas = replicas_in(map_of(target).owns, shape_.copies());
  for (Mask rest = replicas; rest != 0; rest &= rest - 1) {
    const Target& other = at(first_of(rest));
    if (!other.up || map_of(first_of(rest)).version > map_of(target).version) return false;
    if (!other.record.there() || other.record.gen < self.record.gen) return false;
  }
  note("walk erases", target, kNobody, self.record.gen);
  self.record = {};
  return true;
}

/// True: no record here is another's.
bool World::walk_record(int target) {
  Target& self = at(target);
  if (!self.record.there()) return true;
  if (self.locked_by != 0) return false;
  const Plan plan = plan_name(map_of(target), target, shape_.copies());
  if (self.record.mark != kNobody) {
    if (!plan.keep && rules_.overtaken && erase_when_all_have_it(target)) return true;
    if (!is_running(Task::settle, target)) begin(Task::settle, target);
    return false;
  }
  for (Mask rest = plan.send; rest != 0; rest &= rest - 1) {
    Message copy = message(What::give, target, first_of(rest));
    copy.record = self.record;
    if (!quiet_ && chance(trouble_)) {
      send(copy);
      return false;
    }
    if (!ready(copy) || !handle(copy, nullptr)) return false;
  }
  if (plan.keep) return true;
  if (plan.send == 0) return false;
  return erase_when_all_have_it(target);
}

bool World::walk(int target) {
  Target& self = at(target);
  if (!self.up || self.lease == 0 || self.lossy_until != 0) return false;
  const State& state = state_of(target);
  const std::uint64_t version = state.map.version;
  if (version != now().map.version || state.settled < version) return false;
  const bool only_ours = std::none_of(ops_.begin(), ops_.end(), [&](const Op& op) {
    return op.at == target && (op.moved || op.older);
  });
  if (!walk_record(target) || !only_ours) return false;
  if (map_of(target).version == version) self.moved = version;
  return true;
}

void World::forget_tombstone(int target) {
  Target& self = at(target);
  if (!self.up || self.record.kind != Kind::tombstone || self.record.mark != kNobody) return;
  if (self.locked_by != 0 || self.lossy_until != 0) return;
  // The tombstone came days ago: no earlier copy is on its way any more.
  const auto gives = [](const Message& each) { return each.what == What::give; };
  if (std::any_of(late_.begin(), late_.end(), gives)) return;
  for (const Op& op : ops_)
    for (const Call& call : op.calls)
      if (call.fate == Fate::pending && gives(call.message)) return;
  const Map& map = map_of(target);
  const Mask replicas = replicas_in(map.owns, shape_.copies());
  if (!has(replicas, target)) return;
  for (const PastEpoch& set : map.past)
    if ((replicas_in(set.nodes, shape_.copies()) & ~replicas) != 0) return;
  for (Mask rest = replicas; rest != 0; rest &= rest - 1) {
    const Target& other = at(first_of(rest));
    if (!other.up || map_of(first_of(rest)).version != map.version) return;
    if (first_of(rest) != target && other.record.there() && other.record.gen < self.record.gen)
      return;
    // A replica without a record must have had it, and forgotten it.
    if (!other.record.there() && nothing_ < self.record.born) return;
  }
  note("tombstone forgotten", target, kNobody, self.record.gen);
  nothing_ = std::max(nothing_, self.record.born);
  self.record = {};
}

// --- slices ---

/// The one with the highest a on a drive in service.
Slice* World::find(int target, int set, int index) {
  Target& self = at(target);
  Slice* best = nullptr;
  for (Slice& slice : self.slices)
    if (slice.set == set && slice.index == index && serves(self, slice) &&
        (best == nullptr || best->a < slice.a))
      best = &slice;
  return best;
}

/// On any drive.
bool World::holds(int target, int set, int index) const {
  const auto& slices = targets_[static_cast<std::size_t>(target)].slices;
  return std::any_of(slices.begin(), slices.end(),
                     [&](const Slice& slice) { return slice.set == set && slice.index == index; });
}

/// Slices of a record that are where it names them; the full copy counts as k of them. Not counted:
/// those at target `without`, on drive `drive_of` of it or (-1) on any. `serving`: those only that
/// can be read now.
int World::readable(const Record& record, Mask without, int drive_of, bool serving) {
  int count = 0;
  for (int i = 0; i < shape_.indexes(); ++i) {
    const int holder = record.holders[static_cast<std::size_t>(i)];
    if (holder == kNobody) continue;
    const Target& self = at(holder);
    if (serving && !self.up) continue;
    for (const Slice& slice : self.slices) {
      if (slice.set != record.set || slice.index != i) continue;
      if (serving && !serves(self, slice)) continue;
      if (has(without, holder) && (drive_of < 0 || slice.drive == drive_of)) continue;
      count += i == shape_.full_copy() ? shape_.k : 1;
      break;
    }
  }
  return count;
}

bool World::decodes(const Record& record, Mask without, int drive_of, bool serving) {
  return record.kind != Kind::coded || readable(record, without, drive_of, serving) >= shape_.k;
}

void World::check_live(const Record& record, int target, int set, int index, const char* where) {
  if (!record.names(set, index, target) || record.gen < complete_.gen) return;
  note("named still by what is", target, index, record.gen);
  fail(std::string("a slice is dropped that is named by a record ") + where);
}

/// A slice has gone from here, by a rule and not by a fault.
void World::check_removed(int target, int set, int index) {
  if (holds(target, set, index)) return;
  for (int t = 0; t < shape_.targets; ++t)
    check_live(at(t).record, target, set, index, "on a disk");
  for (const Op& op : ops_) {
    if (op.sent) check_live(op.made, target, set, index, "that is being given");
    for (const Call& call : op.calls)
      if (call.fate == Fate::pending && call.message.what == What::give)
        check_live(call.message.record, target, set, index, "on its way");
  }
  for (const Message& each : late_)
    if (each.what == What::give) check_live(each.record, target, set, index, "that is late");
}

void World::remove_slices(int target, int set, int index, Gen up_to) {
  Target& self = at(target);
  const auto gone = std::erase_if(self.slices, [&](const Slice& slice) {
    return slice.set == set && slice.index == index && serves(self, slice) &&
           (!rules_.compare_a || slice.a <= up_to);
  });
  if (gone == 0) return;
  note("dropped", target, index, up_to);
  check_removed(target, set, index);
}

/// Of two of one, the higher a stays.
void World::dedupe(int target) {
  Target& self = at(target);
  if (self.drive_away) return;
  for (std::size_t i = 0; i < self.slices.size(); ++i)
    for (std::size_t j = 0; j < self.slices.size(); ++j) {
      const Slice& one = self.slices[i];
      const Slice& other = self.slices[j];
      if (i == j || one.set != other.set || one.index != other.index || one.a > other.a) continue;
      self.slices.erase(self.slices.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
}

/// True if a fault may take what is there and leave everything readable that might be read some
/// time. Slices that are just being sealed are left alone.
bool World::may_lose(int target, bool all) {
  const int drive = all ? -1 : 1;
  const auto survives = [&](const Record& record) {
    return record.gen < complete_.gen || !record.there() ||
           decodes(record, bit(target), drive, false);
  };
  Mask with_newest = 0;
  for (int t = 0; t < shape_.targets; ++t) {
    if (!survives(at(t).record)) return false;
    if (t != target && at(t).lossy_until == 0 && at(t).record.there() &&
        at(t).record.gen >= complete_.gen)
      with_newest |= bit(t);
  }
  if (all && complete_.there() && with_newest == 0) return false;
  for (const Op& op : ops_) {
    if (op.committing && op.phase != Phase::seal && op.phase != Phase::sealed && !survives(op.made))
      return false;
    if (op.phase == Phase::seal || op.phase == Phase::sealed)
      for (const int holder : op.to)
        if (holder == target) return false;
    for (const Call& call : op.calls)
      if (call.message.what == What::give && !survives(call.message.record)) return false;
  }
  return std::all_of(late_.begin(), late_.end(), [&](const Message& each) {
    return each.what != What::give || survives(each.record);
  });
}

void World::lose(int target, bool all) {
  Target& self = at(target);
  note(all ? "loses all" : "loses a drive", target);
  if (!all) {
    std::erase_if(self.slices, [](const Slice& slice) { return slice.drive == 1; });
    self.drive_away = false;
    return;
  }
  self.record = {};
  self.slices.clear();
  self.drive_away = false;
  self.lossy_until = kUnknown;
}

// --- messages ---

Message World::message(What what, int from, int to) const {
  Message out;
  out.what = what;
  out.from = from;
  out.to = to;
  out.map = map_of(from).version;
  return out;
}

/// True if it can be dealt with now: a record waits for the name's lock.
bool World::ready(const Message& message) const {
  const Target& to = targets_[static_cast<std::size_t>(message.to)];
  return to.up && (message.what != What::give || to.locked_by == 0);
}

bool World::handle(const Message& message, Call* call) {
  switch (message.what) {
    case What::seal: return handle_seal(message);
    case What::raise: return handle_raise(message);
    case What::give: return handle_give(message, call);
    case What::look: return handle_look(message, call);
    case What::drop: remove_slices(message.to, message.set, message.index, message.a); return true;
    case What::ask: handle_ask(message); return true;
    case What::told: handle_told(message); return true;
    case What::settle:
      if (at(message.to).record.mark != kNobody && !is_running(Task::settle, message.to))
        begin(Task::settle, message.to);
      return true;
  }
  return false;
}

bool World::handle_seal(const Message& message) {
  Target& self = at(message.to);
  const auto work = std::find_if(self.work.begin(), self.work.end(),
                                 [&](const Work& each) { return each.token == message.token; });
  if (work == self.work.end()) return false;
  self.work.erase(work);
  if (const Slice* is = find(message.to, message.set, message.index)) {
    if (is->a > message.a) return false;
    if (is->a == message.a && !message.anew) return true;
  }
  std::erase_if(self.slices, [&](const Slice& slice) {
    return slice.set == message.set && slice.index == message.index && serves(self, slice);
  });
  const int drive = self.drive_away ? 0 : pick(2);
  self.slices.push_back({message.set, message.index, message.a, drive});
  note("sealed", message.to, message.index, message.a);
  return true;
}

bool World::handle_raise(const Message& message) {
  Slice* is = find(message.to, message.set, message.index);
  if (is == nullptr) return false;
  is->a = std::max(is->a, message.a);
  note("raised", message.to, message.index, message.a);
  return true;
}

bool World::handle_give(const Message& message, Call* call) {
  if (!accepts(message.to, message.map)) return false;
  Target& self = at(message.to);
  if (!self.record.there() || self.record.gen < message.record.gen) {
    self.record = message.record;
    note(message.record.mark == kNobody ? "takes" : "takes pending", message.to, kNobody,
         message.record.gen);
  }
  if (call != nullptr) call->said = self.record;
  return true;
}

bool World::handle_look(const Message& message, Call* call) {
  Target& self = at(message.to);
  catch_up(message.to, message.map);
  if (map_of(message.to).version != message.map) return false;
  if (self.lossy_until != 0 || !is_quiescent(message.to)) return false;
  if (!message.as_it_is && self.record.mark != kNobody) {
    if (!is_running(Task::settle, message.to)) begin(Task::settle, message.to);
    return false;
  }
  if (call != nullptr) call->said = self.record;
  return true;
}

void World::handle_ask(const Message& message) {
  const Target& self = at(message.to);
  if (map_of(message.to).version != message.map) return;
  if (self.record.mark == kNobody && self.record.names(message.set, message.index, message.from))
    return;
  for (const Op& op : ops_)
    if (op.task == Task::judge && op.at == message.to && op.asker == message.from &&
        op.set == message.set && op.index == message.index)
      return;
  Op& op = begin(Task::judge, message.to);
  op.set = message.set;
  op.index = message.index;
  op.a = message.a;
  op.asker = message.from;
}

void World::handle_told(const Message& message) { clear_mark(message.to, message.a); }

void World::clear_mark(int target, Gen gen) {
  Target& self = at(target);
  if (self.locked_by != 0 || self.record.gen != gen || self.record.mark == kNobody) return;
  self.record.mark = kNobody;
  note("mark cleared", target, kNobody, gen);
}

/// A complete record goes under its own generation.
void World::give_newer(int from, int to) {
  if (at(from).record.mark != kNobody || !at(from).record.there()) return;
  Message copy = message(What::give, from, to);
  copy.record = at(from).record;
  send(copy);
}

void World::call(Op& op, Message message, std::uint64_t group) {
  Call next;
  next.message = message;
  next.group = group;
  op.calls.push_back(next);
}

/// It arrives, and its answer too.
void World::arrive(Call& call) {
  Call answer;
  const Message message = call.message;
  const bool ok = handle(message, &answer);
  call.said = answer.said;
  call.fate = ok ? Fate::done : Fate::failed;
}

/// Decides by lot what becomes of a call.
void World::resolve(Op& op, Call& call) {
  if (quiet_ || !chance(trouble_)) {
    if (ready(call.message)) return arrive(call);
    // It waits for a lock; a target that stands still is given up.
    if (at(call.message.to).up && !quiet_ && !chance(30)) return;
    if (at(call.message.to).up && quiet_ && op.phase != Phase::end && pick(4) != 0) return;
    call.fate = Fate::failed;
    return;
  }
  switch (pick(3)) {
    case 0: break;
    case 1: send(call.message); break;
    default:
      if (ready(call.message)) arrive(call);
  }
  call.fate = Fate::failed;
}

}  // namespace tarn::coded_model
