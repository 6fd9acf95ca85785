// Work of the model's targets: writes, repairs, rule F, asks. Each step is what a coroutine does
// between two waits; whatever is pending may fail, be late, or die with its target.

#include <algorithm>
#include <utility>

#include "tests/unit/coded_model.h"

namespace tarn::coded_model {

Op& World::begin(Task task, int target) {
  Op op;
  op.id = ++op_ids_;
  op.task = task;
  op.at = target;
  op.to = nowhere();
  op.made.holders = nowhere();
  if (task == Task::settle) {
    op.base = at(target).record;
    op.phase = Phase::ask_writer;
  }
  ops_.push_back(std::move(op));
  return ops_.back();
}

Op* World::find_op(int id) {
  for (Op& op : ops_)
    if (op.id == id) return &op;
  return nullptr;
}

bool World::is_running(Task task, int target) const {
  return std::any_of(ops_.begin(), ops_.end(),
                     [&](const Op& op) { return op.task == task && op.at == target; });
}

void World::unlock(Op& op) {
  if (at(op.at).locked_by == op.id) at(op.at).locked_by = 0;
}

void World::end(Op& op) {
  unlock(op);
  ops_.remove_if([&](const Op& each) { return &each == &op; });
}

/// Its next step, or the end of one of its calls.
void World::advance(Op& op) {
  std::vector<std::size_t> pending;
  for (std::size_t i = 0; i < op.calls.size(); ++i)
    if (op.calls[i].fate == Fate::pending) pending.push_back(i);
  if (!pending.empty()) {
    resolve(op, op.calls[pending[at_index(pick(static_cast<int>(pending.size())))]]);
    return;
  }
  switch (op.phase) {
    case Phase::begin: return step_begin(op);
    case Phase::remake:
      op.calls.clear();
      op.phase = Phase::lock;
      return;
    case Phase::lock: return step_lock(op);
    case Phase::find: return step_find(op);
    case Phase::found: return step_found(op);
    case Phase::commit: return step_commit(op);
    case Phase::seal: return step_seal(op);
    case Phase::sealed: return step_sealed(op);
    case Phase::give: return step_give(op);
    case Phase::given: return step_given(op);
    case Phase::publish: return step_publish(op);
    case Phase::after: return step_after(op);
    case Phase::ask_writer: return step_ask_writer(op);
    case Phase::writer_said: return step_writer_said(op);
    case Phase::hand_on: return gave_up(op);
    case Phase::handed_on: return step_handed_on(op);
    case Phase::give_ours: return step_give_ours(op);
    case Phase::gave_ours: return step_gave_ours(op);
    case Phase::end: return end(op);
  }
}

// --- writes ---

void World::step_begin(Op& op) {
  if (!may_begin(op.at)) return end(op);
  op.lease = at(op.at).lease;
  op.map = map_of(op.at).version;
  op.phase = Phase::lock;
  if (op.task == Task::put || op.task == Task::recode) plan_put(op);
  if (op.task == Task::repair) {
    op.phase = Phase::remake;
    plan_repair(op);
  }
}

/// A work file at `holder`. False: it cannot be had.
bool World::write_at(Op& op, int index, int holder) {
  if (!at(holder).up) return false;
  op.to[at_index(index)] = holder;
  op.token[at_index(index)] = ++tokens_;
  at(holder).work.push_back({tokens_, op.made.set, index});
  return true;
}

void World::plan_put(Op& op) {
  if (op.made.kind != Kind::coded) return;
  op.made.set = ++sets_;
  const Holders wanted = op.to;
  op.to = nowhere();
  for (int i = 0; i < shape_.indexes(); ++i)
    if (const int holder = wanted[at_index(i)]; holder != kNobody) write_at(op, i, holder);
}

void World::plan_repair(Op& op) {
  op.base = at(op.at).record;
  const Record& is = op.base;
  if (is.kind != Kind::coded || is.mark != kNobody || !decodes(is, 0, -1, true)) return;
  const Holders wanted = op.to;
  op.to = nowhere();
  op.made.set = is.set;
  for (int i = 0; i < shape_.indexes(); ++i) {
    const int holder = is.holders[at_index(i)];
    const int next = wanted[at_index(i)];
    if (next == kNobody || !at(next).up) continue;
    if (next != holder) {
      if (find(next, is.set, i) == nullptr) {
        write_at(op, i, next);
      } else {
        op.to[at_index(i)] = next;
        op.token[at_index(i)] = 0;
      }
    } else if (find(holder, is.set, i) == nullptr && write_at(op, i, holder)) {
      Message seal = message(What::seal, op.at, holder);
      seal.set = is.set;
      seal.index = i;
      seal.token = op.token[at_index(i)];
      seal.a = rules_.raise_a ? is.gen : is.written;
      seal.anew = true;
      call(op, seal);
      op.to[at_index(i)] = kNobody;
    }
  }
}

void World::step_lock(Op& op) {
  Target& self = at(op.at);
  if (self.locked_by != 0) return;
  self.locked_by = op.id;
  op.phase = op.task == Task::put ? Phase::commit : Phase::find;
}

void World::step_find(Op& op) {
  const Map& map = map_of(op.at);
  const Record& own = at(op.at).record;
  if (at(op.at).lossy_until != 0 || !has(replicas_in(map.owns, shape_.copies()), op.at))
    return end(op);
  if (own.mark != kNobody && op.task != Task::forward) {
    if (!is_running(Task::settle, op.at)) begin(Task::settle, op.at);
    return end(op);
  }
  op.round = map.version;
  op.groups = readers_of(map, op.at, shape_.copies(), own.gen >> kVersionShift);
  op.phase = Phase::found;
  for (std::size_t g = 0; g < op.groups.size(); ++g) {
    const Group& group = op.groups[g];
    if (group.all_needed && op.task == Task::judge) return end(op);
    Mask asked = group.all_needed ? group.replicas : bit(pick_of(group.replicas));
    for (; asked != 0; asked &= asked - 1) {
      Message look = message(What::look, op.at, first_of(asked));
      look.as_it_is = op.task == Task::forward && rules_.forward_sees_marks;
      call(op, look, g);
    }
  }
}

void World::step_found(Op& op) {
  if (map_of(op.at).version != op.round) return end(op);
  const Record own = at(op.at).record;
  const auto still = readers_of(map_of(op.at), op.at, shape_.copies(), own.gen >> kVersionShift);
  Record newest = own;
  int holder = op.at;
  for (const Call& each : op.calls) {
    const Group& group = op.groups[each.group];
    if (each.fate != Fate::done && std::find(still.begin(), still.end(), group) != still.end())
      return end(op);
    if (each.fate == Fate::done && each.said.there() && each.said.gen > newest.gen) {
      newest = each.said;
      holder = each.message.to;
    }
  }
  op.calls.clear();
  if (holder != op.at) {
    if (newest.mark == kNobody)
      give_newer(holder, op.at);
    else
      send(message(What::settle, op.at, holder));
    return end(op);
  }
  decide(op, newest);
}

/// Decides what it makes of the newest version.
void World::decide(Op& op, const Record& newest) {
  const int set = op.made.set;
  op.phase = Phase::commit;
  op.former = {};
  switch (op.task) {
    case Task::put: return;
    case Task::patch:
      if (newest.kind != Kind::coded && newest.kind != Kind::plain) return end(op);
      break;
    case Task::repair:
      if (newest.kind != Kind::coded || newest.set != op.base.set ||
          newest.holders != op.base.holders)
        return end(op);
      op.former = newest;
      break;
    case Task::recode:
      if (newest.kind != Kind::coded && newest.kind != Kind::plain) return end(op);
      op.former = newest;
      op.made = newest;
      op.made.kind = Kind::coded;
      op.made.set = set;
      op.made.holders = nowhere();
      op.made.written = 0;
      return;
    case Task::forward:
      if (newest.mark == kNobody) return end(op);
      break;
    case Task::judge:
      if (newest.names(op.set, op.index, op.asker)) return end(op);
      if (newest.gen >= op.a || !rules_.bump) {
        Message drop = message(What::drop, op.at, op.asker);
        drop.set = op.set;
        drop.index = op.index;
        drop.a = std::max(newest.gen, op.a);
        if (newest.gen >= op.a) drop.a = newest.gen;
        send(drop);
        return end(op);
      }
      break;
    case Task::settle: return end(op);
  }
  op.made = newest;
  if (!newest.there()) {
    op.made.kind = Kind::tombstone;
    op.made.born = nothing_;
    op.made.holders = nowhere();
  }
}

void World::step_commit(Op& op) {
  Target& self = at(op.at);
  if (self.lease != op.lease || self.lossy_until != 0) return end(op);
  op.g = op.map << kVersionShift | ++counter_;
  if (self.record.gen >= op.g || (op.task == Task::judge && op.a >= op.g)) return end(op);
  op.committing = true;
  op.made.gen = op.g;
  op.made.mark = kNobody;
  if (op.task == Task::put) op.former = self.record;
  if (op.task == Task::put || op.task == Task::patch) op.made.born = op.g;
  if (op.made.kind == Kind::coded && op.made.written == 0) op.made.written = op.g;
  note("commits", op.at, static_cast<int>(op.task), op.g);
  if (!rules_.drop_last) drop_former(op);
  op.phase = Phase::seal;
}

void World::step_seal(Op& op) {
  op.phase = Phase::sealed;
  if (op.made.kind != Kind::coded) return;
  if (!rules_.seal_first && !op.sent) return;
  for (int i = 0; i < shape_.indexes(); ++i) {
    const int holder = op.to[at_index(i)];
    if (holder == kNobody) continue;
    const int token = op.token[at_index(i)];
    Message seal = message(token == 0 ? What::raise : What::seal, op.at, holder);
    seal.set = op.made.set;
    seal.index = i;
    seal.token = token;
    seal.a = rules_.raise_a ? op.g : op.made.written;
    call(op, seal);
  }
}

void World::step_sealed(Op& op) {
  const bool fresh = op.task == Task::put || op.task == Task::recode;
  bool changed = false;
  for (const Call& each : op.calls) {
    const auto i = at_index(each.message.index);
    if (each.fate != Fate::done) continue;
    op.made.holders[i] = each.message.to;
    changed = true;
  }
  op.calls.clear();
  if (op.made.kind == Kind::coded && !rules_.seal_first) {
    if (op.sent) return end(op);
    for (int i = 0; i < shape_.indexes(); ++i)
      if (op.to[at_index(i)] != kNobody) op.made.holders[at_index(i)] = op.to[at_index(i)];
    changed = true;
  }
  op.phase = Phase::give;
  if (op.task == Task::repair && !changed) return end(op);
  if (!fresh || op.made.kind != Kind::coded) return;
  int slices = 0;
  int wanted = 0;
  for (int i = 0; i < shape_.slices(); ++i) {
    slices += op.made.holders[at_index(i)] != kNobody ? 1 : 0;
    wanted += op.to[at_index(i)] != kNobody ? 1 : 0;
  }
  const bool full_copy = op.made.holders[at_index(shape_.full_copy())] != kNobody;
  const bool full_copy_wanted = op.to[at_index(shape_.full_copy())] != kNobody;
  const bool enough =
      full_copy_wanted ? full_copy && (wanted == 0 || slices >= shape_.k) : slices >= shape_.k + 1;
  if (enough) return;
  // No target was given a record that names them, nor will be.
  for (int i = 0; i < shape_.indexes(); ++i) {
    if (op.to[at_index(i)] == kNobody) continue;
    Message drop = message(What::drop, op.at, op.to[at_index(i)]);
    drop.set = op.made.set;
    drop.index = i;
    drop.a = op.g;
    send(drop);
  }
  end(op);
}

void World::step_give(Op& op) {
  const Map& map = map_of(op.at);
  const Mask replicas = replicas_in(map.owns, shape_.copies());
  if (first_of(replicas) != op.at || (op.moved && rules_.one_tenure)) return end(op);
  op.round = map.version;
  op.sent = true;
  op.phase = Phase::given;
  for (Mask lacking = replicas & ~op.have & ~bit(op.at); lacking != 0; lacking &= lacking - 1) {
    Message copy = message(What::give, op.at, first_of(lacking));
    copy.record = op.made;
    copy.record.mark = op.at;
    call(op, copy);
  }
}

void World::step_given(Op& op) {
  bool all = true;
  for (const Call& each : op.calls) {
    if (each.fate == Fate::done)
      op.have |= bit(each.message.to);
    else
      all = false;
  }
  op.calls.clear();
  if (all && map_of(op.at).version == op.round && former_replicas_know(op.at)) {
    op.phase = Phase::publish;
    return;
  }
  // Its patience has an end; then the outcome is unknown.
  if (pick(quiet_ ? 20 : 4) == 0) return end(op);
  op.phase = Phase::give;
}

/// Complete from here on.
void World::step_publish(Op& op) {
  Target& self = at(op.at);
  self.record = op.made;
  note("publishes", op.at, static_cast<int>(op.task), op.g);
  if (complete_.gen < op.g) complete_ = op.made;
  op.committing = false;
  unlock(op);
  op.phase = Phase::after;
}

void World::drop_former(Op& op) {
  const Record& was = op.former;
  if (was.kind != Kind::coded) return;
  for (int i = 0; i < shape_.indexes(); ++i) {
    const int holder = was.holders[at_index(i)];
    if (holder == kNobody || op.made.names(was.set, i, holder)) continue;
    if (!rules_.drop_last && at_index(i) < op.to.size() && op.to[at_index(i)] == holder) continue;
    Message drop = message(What::drop, op.at, holder);
    drop.set = was.set;
    drop.index = i;
    drop.a = op.g;
    send(drop);
  }
}

void World::step_after(Op& op) {
  const bool acknowledged =
      at(op.at).lease == op.lease && (op.task == Task::put || op.task == Task::patch);
  if (acknowledged) {
    acknowledged_ = std::max(acknowledged_, op.made.born);
    note("acknowledged", op.at, kNobody, op.made.born);
  }
  const Mask replicas = replicas_in(map_of(op.at).owns, shape_.copies());
  for (Mask rest = replicas & ~bit(op.at); rest != 0; rest &= rest - 1) {
    Message told = message(What::told, op.at, first_of(rest));
    told.a = op.g;
    send(told);
  }
  if (rules_.drop_last) drop_former(op);
  if (op.task == Task::judge) {
    Message drop = message(What::drop, op.at, op.asker);
    drop.set = op.set;
    drop.index = op.index;
    drop.a = op.g;
    send(drop);
  }
  if (!rules_.seal_first && op.made.kind == Kind::coded) {
    op.phase = Phase::seal;
    return;
  }
  end(op);
}

// --- pending records ---

void World::step_ask_writer(Op& op) {
  const Record& is = at(op.at).record;
  if (is.gen != op.base.gen || is.mark == kNobody) return end(op);
  const int writer = is.mark;
  if (at(writer).lease_in_store == 0) return gave_up(op);
  if (writer == op.at) return is_quiescent(op.at) ? gave_up(op) : end(op);
  Message look = message(What::look, op.at, writer);
  look.as_it_is = true;
  call(op, look);
  op.phase = Phase::writer_said;
}

void World::step_writer_said(Op& op) {
  const Call said = op.calls.front();
  op.calls.clear();
  if (said.fate != Fate::done) return end(op);
  give_up_word(op, said.said);
}

void World::give_up_word(Op& op, const Record& said) {
  if (!said.there() || said.gen < op.base.gen) return gave_up(op);
  if (said.gen == op.base.gen) {
    if (said.mark != kNobody) return gave_up(op);
    clear_mark(op.at, op.base.gen);
  } else if (said.mark == kNobody) {
    give_newer(op.base.mark, op.at);
  }
  end(op);
}

/// Its writer does not go on with it.
void World::gave_up(Op& op) {
  Target& self = at(op.at);
  if (self.record.gen != op.base.gen || self.record.mark == kNobody) return end(op);
  if (!rules_.forward_by_owner) {
    op.round = map_of(op.at).version;
    op.phase = Phase::give_ours;
    return;
  }
  const int owner = first_of(map_of(op.at).owns);
  if (owner == op.at) {
    if (may_begin(op.at) && !is_running(Task::forward, op.at)) begin(Task::forward, op.at);
    return end(op);
  }
  Message copy = message(What::give, op.at, owner);
  copy.record = self.record;
  copy.record.mark = op.at;
  op.round = map_of(op.at).version;
  call(op, copy);
  op.phase = Phase::handed_on;
}

void World::step_handed_on(Op& op) {
  const Call said = op.calls.front();
  op.calls.clear();
  if (said.fate == Fate::done) {
    const int owner = said.message.to;
    if (said.said.mark == kNobody && said.said.gen == op.base.gen && rules_.owner_has_it)
      clear_mark(op.at, op.base.gen);
    else if (said.said.mark == kNobody)
      give_newer(owner, op.at);
    else
      send(message(What::settle, op.at, owner));
  }
  end(op);
}

/// As 014 has it.
void World::step_give_ours(Op& op) {
  const Mask replicas = replicas_in(map_of(op.at).owns, shape_.copies());
  for (Mask rest = replicas & ~bit(op.at); rest != 0; rest &= rest - 1) {
    Message copy = message(What::give, op.at, first_of(rest));
    copy.record = op.base;
    copy.record.mark = op.at;
    call(op, copy);
  }
  op.phase = Phase::gave_ours;
}

void World::step_gave_ours(Op& op) {
  const bool all = std::all_of(op.calls.begin(), op.calls.end(),
                               [](const Call& each) { return each.fate == Fate::done; });
  op.calls.clear();
  if (all && map_of(op.at).version == op.round) {
    clear_mark(op.at, op.base.gen);
    const Record& is = at(op.at).record;
    if (is.gen == op.base.gen && is.mark == kNobody && complete_.gen < is.gen) complete_ = is;
    const Mask replicas = replicas_in(map_of(op.at).owns, shape_.copies());
    for (Mask rest = replicas & ~bit(op.at); rest != 0; rest &= rest - 1) {
      Message told = message(What::told, op.at, first_of(rest));
      told.a = op.base.gen;
      send(told);
    }
  }
  end(op);
}

}  // namespace tarn::coded_model
