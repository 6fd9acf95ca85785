// Random events in the cluster of the model, how it becomes quiescent, and what is checked then.
// Also what a test does to it by hand.

#include <algorithm>
#include <utility>

#include "tests/unit/coded_model.h"

namespace tarn::coded_model {
namespace {

constexpr std::size_t kOpsMax = 5;
constexpr int kRoundsMax = 12;
constexpr int kTurnsMax = 300;

}  // namespace

// --- by lot ---

/// Of each slice: it stays, is made again where it was, or goes elsewhere.
void World::client_repair(int owner, Mask up) {
  const Record& is = at(owner).record;
  if (is.kind != Kind::coded) return;
  Holders to = nowhere();
  Mask taken = 0;
  for (const int holder : is.holders)
    if (holder != kNobody) taken |= bit(holder);
  for (int i = 0; i < shape_.indexes(); ++i) {
    const int holder = is.holders[at_index(i)];
    if (i == shape_.full_copy() && holder == kNobody && !chance(10)) continue;
    const bool good = holder != kNobody && at(holder).up && find(holder, is.set, i) != nullptr;
    if (good && !chance(25)) continue;
    if (!good && holder != kNobody && at(holder).up && chance(50)) {
      to[at_index(i)] = holder;
      continue;
    }
    const int next = pick_of(chance(80) ? up & ~taken : up);
    if (next == kNobody) continue;
    to[at_index(i)] = next;
    taken |= bit(next);
  }
  repair(owner, to);
}

/// Striped, with the full copy at the owner, or the full copy alone. `again`: what is there is
/// coded anew.
void World::client_put(int owner, Mask up, bool again) {
  Holders to = nowhere();
  Mask free = up;
  const int layout = pick(100);
  for (int i = 0; i < shape_.slices() && layout < 85; ++i) {
    const int holder = pick_of(free == 0 || chance(5) ? up : free);
    to[at_index(i)] = holder;
    free &= ~bit(holder);
  }
  if (layout >= 60) to[at_index(shape_.full_copy())] = owner;
  if (!again) {
    put(owner, Kind::coded, to);
    return;
  }
  if (!at(owner).record.there()) return;
  Op& op = begin(Task::recode, owner);
  op.made.kind = Kind::coded;
  op.to = to;
}

/// A target that takes itself for the owner begins something.
void World::client() {
  int owner = kNobody;
  for (int t = 0; t < shape_.targets; ++t)
    if (may_begin(t) && (owner == kNobody || chance(50))) owner = t;
  if (owner == kNobody || ops_.size() >= kOpsMax) return;
  Mask up = 0;
  for (int t = 0; t < shape_.targets; ++t)
    if (at(t).up) up |= bit(t);
  const int what = pick(100);
  if (what < 5) {
    put(owner, Kind::plain, nowhere());
  } else if (what < 11) {
    put(owner, Kind::tombstone, nowhere());
  } else if (what < 20) {
    patch(owner);
  } else if (what < 70) {
    client_repair(owner, up);
  } else {
    client_put(owner, up, what < 75);
  }
}

/// A target asks about one of its slices, whatever its age.
void World::ask_some(int target) {
  const Target& self = at(target);
  if (!self.up || self.slices.empty()) return;
  const Slice& slice = self.slices[at_index(pick(static_cast<int>(self.slices.size())))];
  if (!serves(self, slice)) return;
  const int owner = first_of(map_of(target).owns);
  if (owner == kNobody) return;
  Message ask = message(What::ask, target, owner);
  ask.set = slice.set;
  ask.index = slice.index;
  ask.a = slice.a;
  send(ask);
}

void World::fault() {
  int t = pick(shape_.targets);
  // Best in the middle of something.
  for (const Op& op : ops_)
    if (op.sent && chance(40)) t = op.at;
  Target& self = at(t);
  switch (pick(9)) {
    case 0:
    case 1:
      if (self.up) crash(t);
      if (pick(3) == 0 && self.lease_in_store != 0 && others_own(t)) fence(t);
      break;
    case 2:
      if (!self.up) boot(t, chance(70));
      break;
    case 3:
      if (self.lease_in_store == 0) break;
      if (pick(2) == 0 || !others_own(t))
        end_lease(t);
      else
        fence(t);
      break;
    case 4: self.drive_away = !self.drive_away; break;
    case 5:
      if (self.drive_away && may_lose(t, false)) lose(t, false);
      break;
    case 6:
      if (!self.up && may_lose(t, true)) lose(t, true);
      break;
    case 7: {
      const Mask aside = now().map.aside ^ bit(t);
      if ((now().map.all & ~now().map.down & ~now().map.out & ~aside) == 0) break;
      publish(with_aside(now().map, aside));
      break;
    }
    default:
      dedupe(t);
      if (pick(4) == 0) self.work.clear();
  }
}

/// A message arrives, or never does.
void World::deliver_some() {
  if (late_.empty()) return;
  const std::size_t i = at_index(pick(static_cast<int>(late_.size())));
  const Message message = late_[i];
  const bool lost = !quiet_ && chance(trouble_);
  if (!lost && !ready(message)) return;
  late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(i));
  if (!lost) handle(message, nullptr);
}

void World::step() {
  if (op_ids_ == 0) {
    constexpr std::array<int, 4> kTroubles{3, 12, 25, 45};
    trouble_ = kTroubles[at_index(pick(4))];
  }
  const int what = pick(100);
  const int t = pick(shape_.targets);
  if (what < 45) {
    if (ops_.empty()) return client();
    auto op = ops_.begin();
    std::advance(op, pick(static_cast<int>(ops_.size())));
    // Several steps of one thing are as likely as others in between.
    const int id = op->id;
    for (int steps = 1 + pick(6); steps > 0; --steps)
      if (Op* is = find_op(id); is != nullptr) advance(*is);
  } else if (what < 53) {
    client();
  } else if (what < 63) {
    deliver_some();
  } else if (what < 68) {
    ask_some(t);
  } else if (what < 70) {
    walk(t);
  } else if (what < 73) {
    if (at(t).up && at(t).record.mark != kNobody && !is_running(Task::settle, t))
      begin(Task::settle, t);
  } else if (what < 79) {
    if (at(t).up)
      learn(t, at(t).known + 1 + at_index(pick(static_cast<int>(states_.size()))) < states_.size()
                   ? at(t).known + 1
                   : states_.size() - 1);
  } else if (what < 85) {
    coordinate();
  } else if (what < 88) {
    if (at(t).up && at(t).lease == 0) take_lease(t);
  } else if (what < 93) {
    read(t);
  } else if (what == 93) {
    forget_tombstone(t);
  } else {
    fault();
  }
}

// --- quiescent ---

void World::finish_ops() {
  for (int turn = 0; turn < kTurnsMax && !(ops_.empty() && late_.empty()); ++turn) {
    std::vector<int> ids;
    for (const Op& op : ops_) ids.push_back(op.id);
    for (const int id : ids)
      if (Op* op = find_op(id); op != nullptr) advance(*op);
    deliver_some();
  }
}

/// All that targets and the coordinator do by themselves, once.
void World::quiet_round() {
  for (int t = 0; t < shape_.targets; ++t) {
    if (!at(t).up) boot(t, true);
    at(t).drive_away = false;
    dedupe(t);
    if (at(t).lease == 0) take_lease(t);
  }
  for (int t = 0; t < shape_.targets; ++t)
    if (at(t).lossy_until == kUnknown) {
      publish(with_loss(now().map, t));
      at(t).lossy_until = now().map.version;
    }
  if (now().map.aside != 0) publish(with_aside(now().map, 0));
  hear();
  finish_ops();
  for (int t = 0; t < shape_.targets; ++t)
    if (at(t).record.mark != kNobody && !is_running(Task::settle, t)) begin(Task::settle, t);
  finish_ops();
  for (int t = 0; t < shape_.targets; ++t) walk(t);
  finish_ops();
  Mask moved = 0;
  for (int t = 0; t < shape_.targets; ++t)
    if (at(t).moved >= now().map.version) moved |= bit(t);
  Map next = now().map;
  if (forget(next, moved)) {
    publish(std::move(next));
    hear();
  }
  const int owner = first_of(now().map.owns);
  repair_all(owner);
  finish_ops();
  ask_all(owner);
}

/// All that is missing is made again.
void World::repair_all(int owner) {
  const Record& is = at(owner).record;
  if (is.kind != Kind::coded || is.mark != kNobody) return;
  Holders to = nowhere();
  Mask free = now().map.all;
  for (const int holder : is.holders)
    if (holder != kNobody) free &= ~bit(holder);
  bool wanted = false;
  for (int i = 0; i < shape_.indexes(); ++i) {
    int holder = is.holders[at_index(i)];
    if (i == shape_.full_copy() && holder == kNobody) continue;
    if (holder != kNobody && find(holder, is.set, i) != nullptr) continue;
    if (holder == kNobody) holder = free != 0 ? first_of(free) : pick(shape_.targets);
    free &= ~bit(holder);
    to[at_index(i)] = holder;
    wanted = true;
  }
  if (wanted) repair(owner, to);
}

void World::ask_all(int owner) {
  for (int t = 0; t < shape_.targets; ++t)
    for (const Slice& slice : std::vector<Slice>(at(t).slices)) {
      Message ask = message(What::ask, t, owner);
      ask.set = slice.set;
      ask.index = slice.index;
      ask.a = slice.a;
      handle(ask, nullptr);
      finish_ops();
    }
}

void World::rest() {
  quiet_ = true;
  note("rest");
  std::string last;
  for (int round = 0; round < kRoundsMax && wrong_.empty(); ++round) {
    quiet_round();
    if (!wrong_.empty()) break;
    check_quiescent();
    if (wrong_.empty()) break;
    last = std::exchange(wrong_, "");
    if (round + 1 == kRoundsMax) wrong_ = last;
  }
  for (int t = 0; t < shape_.targets; ++t) read(t);
  quiet_ = false;
}

void World::check_quiescent() {
  const Map& map = now().map;
  if (!map.past.empty()) return fail("quiescent: a past epoch is kept");
  const int owner = first_of(map.owns);
  const Record& is = at(owner).record;
  const Gen born = is.there() ? is.born : nothing_;
  if (born < acknowledged_) return fail("quiescent: what was acknowledged is not there");
  if (born < shown_) return fail("quiescent: what was shown is not there");
  if (is.mark != kNobody) return fail("quiescent: the owner's record is pending");
  if (!decodes(is, 0, -1, true)) return fail("quiescent: fewer than k slices are there");
  const Mask replicas = replicas_in(map.owns, shape_.copies());
  for (int t = 0; t < shape_.targets; ++t) {
    const Record& other = at(t).record;
    if (!has(replicas, t)) {
      if (other.there()) return fail("quiescent: a record is where it does not belong");
    } else if (other.gen != is.gen && !(is.kind <= Kind::none || is.kind == Kind::tombstone)) {
      return fail("quiescent: replicas differ");
    } else if (other.there() && other.mark != kNobody) {
      return fail("quiescent: a record is pending");
    }
    for (const Slice& slice : at(t).slices)
      if (!is.names(slice.set, slice.index, t)) return fail("quiescent: an unnamed slice is left");
  }
  if (is.kind != Kind::coded) return;
  for (int i = 0; i < shape_.indexes(); ++i) {
    const int holder = is.holders[at_index(i)];
    if (holder == kNobody) {
      if (i != shape_.full_copy()) return fail("quiescent: a slice is missing");
    } else if (find(holder, is.set, i) == nullptr) {
      return fail("quiescent: a named slice is missing");
    }
  }
}

// --- by hand ---

int World::put(int target, Kind kind, const Holders& holders) {
  Op& op = begin(Task::put, target);
  op.made.kind = kind;
  op.to = kind == Kind::coded ? holders : nowhere();
  return op.id;
}

int World::patch(int target) { return begin(Task::patch, target).id; }

int World::repair(int target, const Holders& to) {
  Op& op = begin(Task::repair, target);
  op.to = to;
  return op.id;
}

int World::settle(int target) { return begin(Task::settle, target).id; }

int World::begin_ask(int holder, int index) {
  const int owner = first_of(map_of(holder).owns);
  for (const Slice& slice : std::vector<Slice>(at(holder).slices)) {
    if (slice.index != index) continue;
    Message ask = message(What::ask, holder, owner);
    ask.set = slice.set;
    ask.index = index;
    ask.a = slice.a;
    handle(ask, nullptr);
    if (const int judge = running(Task::judge, owner); judge != 0) return judge;
  }
  return 0;
}

void World::ask(int holder, int index) {
  for (const Slice& slice : std::vector<Slice>(at(holder).slices)) {
    if (slice.index != index) continue;
    run(begin_ask(holder, index));
    const auto is_word = [&](const Message& each) {
      return each.what == What::drop && each.to == holder && each.index == index;
    };
    for (const Message& each : std::vector<Message>(late_))
      if (is_word(each)) handle(each, nullptr);
    std::erase_if(late_, is_word);
  }
}

void World::run(int id, Phase phase) {
  quiet_ = true;
  for (int turn = 0; turn < 200; ++turn) {
    Op* op = find_op(id);
    if (op == nullptr || op->phase == phase) break;
    advance(*op);
  }
  quiet_ = false;
}

void World::run_calls(int id, Mask reached, Mask heard) {
  Op* op = find_op(id);
  if (op == nullptr) return fail("by hand: it has ended");
  for (Call& each : op->calls) {
    if (each.fate != Fate::pending) continue;
    if (has(reached, each.message.to) && ready(each.message)) arrive(each);
    if (each.fate == Fate::pending || !has(heard, each.message.to)) each.fate = Fate::failed;
  }
}

void World::delay_calls(int id) {
  Op* op = find_op(id);
  if (op == nullptr) return fail("by hand: it has ended");
  for (Call& each : op->calls) {
    if (each.fate != Fate::pending) continue;
    send(each.message);
    each.fate = Fate::failed;
  }
}

void World::give_up(int id) {
  if (Op* op = find_op(id); op != nullptr) end(*op);
}

int World::running(Task task, int target) const {
  for (const Op& op : ops_)
    if (op.task == task && op.at == target) return op.id;
  return 0;
}

void World::deliver(int target) {
  const std::vector<Message> now = std::exchange(late_, {});
  for (const Message& each : now) {
    if ((target == kNobody || each.to == target) && ready(each))
      handle(each, nullptr);
    else
      late_.push_back(each);
  }
}

void World::take_slice(int target, int index) {
  std::erase_if(at(target).slices, [&](const Slice& slice) { return slice.index == index; });
}

void World::crash(int target) {
  note("crash", target);
  Target& self = at(target);
  self.up = false;
  self.lease = 0;
  self.locked_by = 0;
  self.work.clear();
  self.moved = 0;
  ops_.remove_if([&](const Op& op) { return op.at == target; });
}

void World::boot(int target, bool lease) {
  note("start", target);
  at(target).up = true;
  if (lease) take_lease(target);
}

void World::start(int target) {
  boot(target, true);
  if (at(target).lossy_until == kUnknown) {
    publish(with_loss(now().map, target));
    at(target).lossy_until = now().map.version;
  }
  hear();
}

void World::fence(int target) {
  end_lease(target);
  const Map& map = now().map;
  if (!has(map.down, target)) publish(with_flags(map, map.down | bit(target), map.out));
  for (int t = 0; t < shape_.targets; ++t)
    if (t != target && at(t).up) learn(t, states_.size() - 1);
  hear();
}

void World::hear() {
  const auto all = [&] {
    for (int t = 0; t < shape_.targets; ++t)
      if (at(t).up && at(t).lease != 0) learn(t, states_.size() - 1);
  };
  all();
  settle_version();
  all();
}

void World::read(int target) {
  Target& self = at(target);
  if (!self.up || self.lease == 0 || self.lossy_until != 0) return;
  const Map map = map_of(target);
  if (!has(replicas_in(map.owns, shape_.copies()), target) || self.record.mark != kNobody) return;
  Gen gen = self.record.gen;
  Gen born = self.record.there() ? self.record.born : nothing_;
  bool there = self.record.there();
  for (const Group& group : readers_of(map, target, shape_.copies(), gen >> kVersionShift)) {
    bool heard = false;
    for (Mask rest = group.replicas; rest != 0; rest &= rest - 1) {
      const int id = first_of(rest);
      Call answer;
      Message look = message(What::look, target, id);
      const bool ok = at(id).up && handle(look, &answer);
      if (!ok && group.all_needed) return;
      if (!ok) continue;
      heard = true;
      if (answer.said.there() && answer.said.gen > gen) {
        gen = answer.said.gen;
        born = answer.said.born;
        there = true;
      }
      if (!group.all_needed) break;
    }
    if (!heard && !group.all_needed) return;
  }
  if (map_of(target).version != map.version) return;
  if (!there) born = nothing_;
  if (born < acknowledged_) {
    note("shows", target, kNobody, born);
    fail("a replica shows less than what was acknowledged");
  }
  if (born < shown_) {
    note("shows", target, kNobody, born);
    fail("a replica goes back");
  }
  shown_ = std::max(shown_, born);
}

}  // namespace tarn::coded_model
