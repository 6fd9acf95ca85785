#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "tests/unit/coded_model_map.h"

/// Coded objects (docs/decisions/019) as a pure model: one name, some targets, what each has on its
/// disks, what is under way between them. No threads, no clock, no I/O: the test says what happens
/// next, by hand or by lot.
namespace tarn::coded_model {

/// A generation: the version of the map, then a counter.
using Gen = std::uint64_t;
inline constexpr unsigned kVersionShift = 32;
inline constexpr std::size_t kSlicesMax = 5;
inline constexpr int kNobody = -1;
inline constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

/// The rules of 019, each of which can be left out.
struct Rules {
  bool forward_by_owner = true;  ///< F; else each target with a pending record gives it to all
  bool bump = true;              ///< D: what has a > G(R) is not judged before R is above it
  bool compare_a = true;         ///< D: a drop looks at a again
  bool raise_a = true;           ///< N: else a is always the generation of the write
  bool seal_first = true;        ///< N: else the record goes before the slices
  bool drop_last = true;         ///< else the former slices go before the record is complete
  /// A pending record at a target that is no replica goes once all replicas have something as new.
  bool overtaken = true;
  /// A commit gives its record by maps only under which its node owned the name all the time.
  bool one_tenure = true;
  /// F: pending records at past replicas count as what they are.
  bool forward_sees_marks = true;
  /// F: what the owner has as complete is so.
  bool owner_has_it = true;
};

struct Shape {
  int k = 2;
  int m = 1;
  int targets = 4;

  [[nodiscard]] int slices() const { return k + m; }
  [[nodiscard]] int full_copy() const { return k + m; }  ///< the index of the full copy
  [[nodiscard]] int indexes() const { return k + m + 1; }
  [[nodiscard]] int copies() const { return m + 1; }
};

enum class Kind : std::uint8_t { none, plain, coded, tombstone };
using Holders = std::array<int, kSlicesMax>;
inline Holders nowhere() {
  Holders out{};
  out.fill(kNobody);
  return out;
}
constexpr std::size_t at_index(int index) { return static_cast<std::size_t>(index); }

struct Record {
  Kind kind = Kind::none;
  Gen gen = 0;
  /// The generation of what a client wrote: bumps, repairs and rule F keep it.
  Gen born = 0;
  int set = 0;
  Gen written = 0;
  Holders holders{};
  int mark = kNobody;

  [[nodiscard]] bool there() const { return kind != Kind::none; }
  [[nodiscard]] bool names(int of_set, int index, int at) const {
    return kind == Kind::coded && set == of_set && holders[static_cast<std::size_t>(index)] == at;
  }
};

/// Sealed.
struct Slice {
  int set = 0;
  int index = 0;
  Gen a = 0;
  int drive = 0;
};
/// A work file.
struct Work {
  int token = 0;
  int set = 0;
  int index = 0;
};

struct Target {
  bool up = true;
  int lease = 0;  ///< what it believes
  int lease_in_store = 0;
  std::size_t known = 0;  ///< of the states of the cluster
  Record record;
  std::vector<Slice> slices;
  std::vector<Work> work;
  bool drive_away = false;        ///< the second one, which has slices only
  std::uint64_t lossy_until = 0;  ///< the map that knows what it has lost; kUnknown: none yet
  int locked_by = 0;
  std::uint64_t moved = 0;
};

enum class What : std::uint8_t { seal, raise, give, look, drop, ask, told, settle };
struct Message {
  What what = What::drop;
  int from = 0;
  int to = 0;
  std::uint64_t map = 0;
  int set = 0;
  int index = 0;
  int token = 0;
  Gen a = 0;
  bool anew = false;
  bool as_it_is = false;
  Record record;
};

enum class Fate : std::uint8_t { pending, done, failed };
struct Call {
  Message message;
  Fate fate = Fate::pending;
  Record said;  ///< look, give: what is there
  std::uint64_t group = 0;
};

enum class Task : std::uint8_t { put, patch, repair, judge, recode, forward, settle };
enum class Phase : std::uint8_t {
  begin,
  lock,
  find,
  found,
  commit,
  seal,
  sealed,
  give,
  given,
  publish,
  after,
  remake,
  ask_writer,
  writer_said,
  hand_on,
  handed_on,
  give_ours,
  gave_ours,
  end
};

/// Something that a target is doing; its crash ends it.
struct Op {
  int id = 0;
  Task task = Task::put;
  Phase phase = Phase::begin;
  int at = 0;
  int lease = 0;
  std::uint64_t map = 0;  ///< Write::map_version of hand_over.h
  bool moved = false;
  bool committing = false;
  bool older = false;
  bool sent = false;  ///< its record is on its way
  Gen g = 0;
  Record base;    ///< from which it makes one
  Record former;  ///< what its slices are dropped of
  Record made;
  Holders to{};     ///< where slices are to be sealed
  Holders token{};  ///< 0: one is there, and is raised
  Mask have = 0;
  std::uint64_t round = 0;
  std::vector<Group> groups;
  std::vector<Call> calls;
  int set = 0;  ///< judge: of this slice
  int index = 0;
  int asker = 0;
  Gen a = 0;
};

/// Contents of the meta store at one revision.
struct State {
  Map map;
  std::uint64_t settled = 0;
};

class World {
 public:
  World(Shape shape, Rules rules, std::uint64_t seed);

  /// One thing happens, by lot.
  void step();
  /// Everything comes back and is delivered, all that is left to do is done; then that is checked.
  void rest();
  /// The first error; empty: none.
  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  void keep_trace() { tracing_ = true; }
  [[nodiscard]] std::string trace() const;

  // By hand. Targets are numbers, in the HRW order of the name; what begins has a number too.

  /// A write with these holders of its slices; of a plain object or a tombstone there are none.
  int put(int target, Kind kind, const Holders& holders);
  int patch(int target);
  /// Slices go where `to` says (kNobody: they stay); where they are already, they are made again if
  /// absent.
  int repair(int target, const Holders& to);
  /// A pending record there is to be settled.
  int settle(int target);
  /// The owner is asked about each slice `index` that is there, whatever its set, and its answer
  /// comes.
  void ask(int holder, int index);
  /// The owner is asked about one; what it begins then, 0: nothing.
  int begin_ask(int holder, int index);
  /// Goes on until `phase` would be next, with what it calls (and that may be pending then).
  void run(int op, Phase phase = Phase::end);
  /// Of its pending calls those to `reached` arrive, and their answers; of those to `heard` only
  /// answers come back.
  void run_calls(int op, Mask reached, Mask heard = ~Mask{0});
  /// Its pending calls arrive later, and their answers are lost.
  void delay_calls(int op);
  /// It gives up without a word.
  void give_up(int op);
  /// The operation of this kind that is under way at `target`; 0: none.
  [[nodiscard]] int running(Task task, int target) const;
  /// Messages under way to `target` (kNobody: to all targets) arrive.
  void deliver(int target = kNobody);
  void lose_messages() { late_.clear(); }
  void crash(int target);
  /// It starts, or takes a lease anew; all hear of it.
  void start(int target);
  /// Its lease ends, and all others act by the map without it.
  void fence(int target);
  /// All with a lease hear of the newest map, and it settles.
  void hear();
  /// All that it had is gone.
  void wipe(int target) { lose(target, true); }
  /// A slice is gone, by a fault.
  void take_slice(int target, int index);
  /// A reader at `target`; what it is shown is compared with what others were.
  void read(int target);
  [[nodiscard]] const Record& record(int target) const {
    return targets_[static_cast<std::size_t>(target)].record;
  }
  /// On any drive. `set`: they are numbered from 1.
  [[nodiscard]] bool holds(int target, int set, int index) const;

 private:
  Target& at(int target) { return targets_[static_cast<std::size_t>(target)]; }
  [[nodiscard]] const State& state_of(int target) const {
    return states_[targets_[static_cast<std::size_t>(target)].known];
  }
  [[nodiscard]] const Map& map_of(int target) const { return state_of(target).map; }
  [[nodiscard]] const State& now() const { return states_.back(); }
  void fail(std::string what);
  void note(const char* text, int a = kNobody, int b = kNobody, Gen g = 0);
  std::uint64_t random();
  int pick(int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }
  bool chance(int percent) { return pick(100) < percent; }
  int pick_of(Mask mask);

  // Cluster
  [[nodiscard]] bool others_own(int target) const { return (now().map.owns & ~bit(target)) != 0; }
  void learn(int target, std::size_t state);
  void publish(Map map);
  void boot(int target, bool lease);
  void take_lease(int target);
  void end_lease(int target);
  void coordinate();
  bool settle_version();
  [[nodiscard]] bool is_quiescent(int target) const;
  [[nodiscard]] bool may_begin(int target) const;
  [[nodiscard]] bool former_replicas_know(int target) const;
  void catch_up(int target, std::uint64_t map);
  [[nodiscard]] bool accepts(int target, std::uint64_t map);
  bool walk(int target);
  bool walk_record(int target);
  bool erase_when_all_have_it(int target);
  void forget_tombstone(int target);

  // Slices
  [[nodiscard]] bool serves(const Target& target, const Slice& slice) const {
    return slice.drive == 0 || !target.drive_away;
  }
  [[nodiscard]] Slice* find(int target, int set, int index);
  [[nodiscard]] bool here(int target, int set, int index);
  [[nodiscard]] int readable(const Record& record, Mask without, int drive_of, bool serving);
  [[nodiscard]] bool decodes(const Record& record, Mask without, int drive_of, bool serving);
  void remove_slices(int target, int set, int index, Gen up_to);
  void check_removed(int target, int set, int index);
  void check_live(const Record& record, int target, int set, int index, const char* where);
  void dedupe(int target);
  [[nodiscard]] bool may_lose(int target, bool all);
  void lose(int target, bool all);

  // Messages
  [[nodiscard]] bool ready(const Message& message) const;
  bool handle(const Message& message, Call* call);
  bool handle_seal(const Message& message);
  bool handle_raise(const Message& message);
  bool handle_give(const Message& message, Call* call);
  bool handle_look(const Message& message, Call* call);
  void handle_ask(const Message& message);
  void handle_told(const Message& message);
  void send(Message message) { late_.push_back(message); }
  void call(Op& op, Message message, std::uint64_t group = 0);
  void resolve(Op& op, Call& call);
  void arrive(Call& call);

  // Operations
  Op& begin(Task task, int target);
  [[nodiscard]] Op* find_op(int id);
  [[nodiscard]] bool is_running(Task task, int target) const;
  void advance(Op& op);
  void end(Op& op);
  void unlock(Op& op);
  void step_begin(Op& op);
  void plan_put(Op& op);
  void plan_repair(Op& op);
  bool write_at(Op& op, int index, int holder);
  void step_lock(Op& op);
  void step_find(Op& op);
  void step_found(Op& op);
  void decide(Op& op, const Record& newest);
  void step_commit(Op& op);
  void step_seal(Op& op);
  void step_sealed(Op& op);
  void step_give(Op& op);
  void step_given(Op& op);
  void step_publish(Op& op);
  void step_after(Op& op);
  void drop_former(Op& op);
  void step_ask_writer(Op& op);
  void step_writer_said(Op& op);
  void give_up_word(Op& op, const Record& said);
  void gave_up(Op& op);
  void step_handed_on(Op& op);
  void step_give_ours(Op& op);
  void step_gave_ours(Op& op);
  void clear_mark(int target, Gen gen);
  void give_newer(int from, int to);
  [[nodiscard]] Message message(What what, int from, int to) const;

  // By lot
  void client();
  void ask_some(int target);
  void client_repair(int owner, Mask up);
  void client_put(int owner, Mask up, bool again);
  void deliver_some();
  void fault();
  void repair_all(int owner);
  void ask_all(int owner);
  void finish_ops();
  void quiet_round();
  void check_quiescent();

  Shape shape_;
  Rules rules_;
  std::uint64_t random_;
  int trouble_ = 10;  // percent of calls that fail
  bool quiet_ = false;
  std::vector<Target> targets_;
  std::vector<State> states_;
  std::list<Op> ops_;
  std::vector<Message> late_;
  std::uint64_t counter_ = 0;
  int leases_ = 0;
  int sets_ = 0;
  int tokens_ = 0;
  int op_ids_ = 0;
  // Facts that no target of the model knows.
  Record complete_;  // the newest that ever was
  Gen acknowledged_ = 0;
  Gen shown_ = 0;
  Gen nothing_ = 0;  // the newest tombstone that was forgotten
  std::string wrong_;
  bool tracing_ = false;
  std::vector<std::string> trace_;
};

}  // namespace tarn::coded_model
