// Model of copies on nodes: the rules of ownership.h and rebalance_plan.h, carried out on a cluster
// of plain maps. In random order targets go down, leave, lose drives and come back, drives are away
// or full, and the number of copies changes. Other targets replace what lies on such drives
// (away_drive.h, lost_records.h). As long as one target has an acknowledged version, no replica
// answers with less. When quiescent, all replicas have it, and no other target.

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/cluster/place/ownership.h"
#include "common/cluster/place/ownership_json.h"
#include "common/cluster/place/rebalance_plan.h"
#include "tests/unit/ownership_fixture.h"
#include "tests/unit/seed.h"

namespace tarn::cluster {
namespace copies_model_test {

constexpr int kNames = 6;
constexpr std::size_t kTargetsMax = 6;
// Longer worlds have more past epochs, and are slow. A wrong answer lasts for some steps, so a look
// at each third step meets nearly as many as a look at each.
constexpr int kSteps = 200;
constexpr int kCheckEvery = 3;

struct Version {
  std::uint64_t map = 0;
  std::uint64_t counter = 0;

  auto operator<=>(const Version&) const = default;
};

struct ModelDrive {
  bool away = false;
  bool stale = false;      // others may have something newer of its names
  bool misplaced = false;  // some of its names may lie on the other drive alone (Mirror::misplaces)
  std::map<int, Version> has;
};

/// A target of two drives. Each name lives on one of them, and lies on the other when that is away,
/// or full.
struct Target {
  bool alive = true;
  std::uint64_t moved = 0;
  std::array<ModelDrive, 2> drives;

  [[nodiscard]] ModelDrive& place(int name) { return drives[static_cast<std::size_t>(name) % 2]; }
  [[nodiscard]] const ModelDrive& place(int name) const {
    return drives[static_cast<std::size_t>(name) % 2];
  }
  [[nodiscard]] bool any_away() const { return drives[0].away || drives[1].away; }
  [[nodiscard]] bool none_there() const { return drives[0].away && drives[1].away; }
  /// True if it stores a version of the name, which has that many copies. Only of one that has
  /// others does another drive take it when its own is away.
  [[nodiscard]] bool takes(int name, std::size_t copies) const {
    return alive && !(copies > 1 ? none_there() : place(name).away);
  }
  /// As away_drive.h.
  [[nodiscard]] bool has_full_view(int name) const {
    const ModelDrive& its = place(name);
    return !its.away && ((!its.stale && !its.misplaced) || !any_away());
  }
  /// True if others believe what it says of the name.
  [[nodiscard]] bool can_tell(int name) const {
    return alive && has_full_view(name) && (shown(name) != Version{} || !any_away());
  }
  [[nodiscard]] Version shown(int name) const {
    Version newest;
    for (const ModelDrive& drive : drives)
      if (const auto found = drive.has.find(name); !drive.away && found != drive.has.end())
        newest = std::max(newest, found->second);
    return newest;
  }
  /// Whatever is away.
  [[nodiscard]] bool has_as_new(int name, Version version) const {
    return std::any_of(drives.begin(), drives.end(), [&](const ModelDrive& drive) {
      const auto found = drive.has.find(name);
      return found != drive.has.end() && found->second >= version;
    });
  }
  [[nodiscard]] bool holds(int name) const {
    return drives[0].has.contains(name) || drives[1].has.contains(name);
  }
  [[nodiscard]] std::set<int> names() const {
    std::set<int> out;
    for (const ModelDrive& drive : drives)
      if (!drive.away)
        for (const auto& [name, version] : drive.has) out.insert(name);
    return out;
  }
  /// `full`: another drive takes it, if any does.
  void store(int name, Version version, bool full) {
    if (none_there() || shown(name) >= version) return;
    const bool lies_elsewhere = place(name).away || (full && !place(name + 1).away);
    place(name).stale = place(name).stale || place(name).away;
    place(name).misplaced = place(name).misplaced || lies_elsewhere;
    forget(name);
    ModelDrive& taker = lies_elsewhere ? place(name + 1) : place(name);
    taker.has[name] = version;
  }
  void forget(int name) {
    for (ModelDrive& drive : drives)
      if (!drive.away) drive.has.erase(name);
  }
  /// As drop_overtaken() of away_drive.h.
  void drop_overtaken() {
    if (any_away()) return;
    for (const int name : names()) {
      const Version newest = shown(name);
      for (ModelDrive& drive : drives)
        if (const auto found = drive.has.find(name);
            found != drive.has.end() && found->second < newest)
          drive.has.erase(found);
    }
    for (ModelDrive& drive : drives) drive.stale = false;
  }
  /// As resilver.cc: names move to the drives where they live.
  void resilver() {
    if (any_away()) return;
    for (const int name : names()) {
      const Version newest = shown(name);
      place(name).has[name] = newest;
      place(name + 1).has.erase(name);
    }
    for (ModelDrive& drive : drives) drive.misplaced = drive.stale;
  }
};

/// Changes in a world beside writes, moves, and targets that come, go and lose drives.
struct Changes {
  bool copies = false;  ///< their number changes
  bool drives = false;  ///< drives are away for a while, or full
  bool zones = false;   ///< targets join with a zone or without, and come with another one
};

/// One cluster. Every step is complete before the next one: what happens within a write or a move
/// is the business of others.
class World {
 public:
  World(std::uint32_t seed, std::size_t count, const Changes& changes)
      : random_(seed), count_(count), changes_(changes) {
    for (int i = 0; i < kNames; ++i)
      digests_.push_back(placement_digest("ais/@#/data/" + std::to_string(i)));
    for (int i = 0; i < 3; ++i) join();
    map_.past.clear();
  }

  void step();
  /// Number of changes of a zone after which placement used zones.
  [[nodiscard]] int zones_used() const { return zones_used_; }
  /// Everything that is there comes back, and all names move to their places. False: they never do.
  bool rest();
  /// The first error; empty: none.
  [[nodiscard]] std::string check();
  [[nodiscard]] std::string check_quiescent() const;

 private:
  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  std::size_t pick_index(std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_);
  }
  [[nodiscard]] std::uint64_t digest(int name) const {
    return digests_[static_cast<std::size_t>(name)];
  }
  /// A member, "" when chance hits none.
  std::string pick_target() {
    const std::size_t at = pick_index(kTargetsMax);
    return at < map_.members.size() ? map_.members[at].id : "";
  }
  [[nodiscard]] ReplicaCount count() const { return {count_, before_}; }
  [[nodiscard]] std::vector<std::string> replicas(int name) const {
    std::vector<std::string> out;
    for (const Replica& replica : map_.current.replicas(digest(name), count_))
      if (replica.drive == 0) out.push_back(map_.current.id(replica.node));
    return out;
  }
  [[nodiscard]] Version held(const std::string& id, int name) const {
    return targets_.at(id).shown(name);
  }
  void give(const std::string& id, int name, Version version) {
    targets_.at(id).store(name, version, changes_.drives && pick(8) == 0);
  }
  void write(int name);
  void join();
  /// Nearly all have a zone, so that placement uses zones at times.
  std::string any_zone() {
    return pick(8) == 0 ? "" : std::string(1, static_cast<char>('a' + pick(3)));
  }
  void change_zone(const std::string& id);
  void flag(const std::string& id, std::uint64_t set, std::uint64_t clear) {
    if (auto next = with_flags(map_, id, set, clear); next && !next->current.empty())
      map_ = std::move(*next);
  }
  void remove(const std::string& id);
  void change_drives(Target& target, const std::string& id);
  void change_copies();
  void step_of_drives(Target& target, const std::string& id);
  void give_lost(const std::string& id);
  bool walk(const std::string& id, std::size_t names_max);
  bool move(const std::string& id, int name);
  void forget();
  [[nodiscard]] std::optional<Version> read(const std::string& self, int name) const;

  std::mt19937 random_;
  std::size_t count_;
  Changes changes_;
  std::vector<PastReplicaCount> before_;
  Ownership map_;
  std::map<std::string, Target> targets_;
  std::vector<std::uint64_t> digests_;
  std::map<int, Version> acknowledged_;
  std::map<int, std::vector<Version>> old_;
  std::uint64_t counter_ = 0;
  int joined_ = 0;
  int zones_used_ = 0;
};

void World::join() {
  if (map_.members.size() >= kTargetsMax) return;
  // Some come back, empty, under the name of one that was removed.
  std::string id =
      "t" + std::to_string(pick(2) == 0 ? joined_++ : pick(static_cast<int>(kTargetsMax)));
  if (targets_.contains(id)) return;
  Member joins = member(id);
  if (changes_.zones) joins.zone = any_zone();
  map_ = with_member(map_, std::move(joins));
  targets_[id] = {};
}

/// The map is read back as other nodes read it.
void World::change_zone(const std::string& id) {
  Member changed = *map_.find(id);
  changed.zone = any_zone();
  map_ = decode_ownership(encode(with_member(map_, std::move(changed)))).value();
  zones_used_ += zones_in_use(map_.members) ? 1 : 0;
}

void World::write(int name) {
  const auto all = replicas(name);
  for (const std::string& id : all)
    if (!targets_.at(id).takes(name, count_)) return;
  const Version version{map_.version, ++counter_};
  for (const std::string& id : all) give(id, name, version);
  old_[name].push_back(version);
  acknowledged_[name] = version;
}

void World::remove(const std::string& id) {
  auto next = without_member(map_, id);
  if (!next || next->current.empty()) return;
  map_ = std::move(*next);
  targets_.erase(id);
}

/// A drive goes with what it has, or comes with what it had some time ago.
void World::change_drives(Target& target, const std::string& id) {
  if (!count().many()) return;  // who has a single copy is believed whatever its drives are
  for (int name = 0; name < kNames; ++name) {
    if (pick(2) == 0) continue;
    for (ModelDrive& drive : target.drives) drive.has.erase(name);
    const auto& versions = old_[name];
    if (!versions.empty() && pick(3) == 0)
      target.place(name).has[name] = versions[pick_index(versions.size())];
  }
  // One that was away may be given up.
  for (ModelDrive& drive : target.drives)
    if (drive.away && pick(2) == 0) drive = {};
  // A name may live on another drive now than where it lies.
  for (ModelDrive& drive : target.drives) drive.misplaced = true;
  map_ = with_loss(map_, id, ++counter_);
}

void World::change_copies() {
  const std::size_t next = 1 + pick_index(4);
  if (next == count_) return;
  map_ = with_other_copies(map_);
  note_replica_count(before_, map_, static_cast<std::uint32_t>(count_));
  count_ = next;
}

/// A drive goes or comes back; others give what it had, or what they overtook on it is dropped.
void World::step_of_drives(Target& target, const std::string& id) {
  ModelDrive& drive = target.drives[pick_index(2)];
  const int what = pick(7);
  if (what == 0)
    drive.away = true;
  else if (what == 1)
    drive.away = false;
  else if (what == 2)
    target.drop_overtaken();
  else if (what == 3)
    target.resilver();
  else
    give_lost(id);
}

/// Does the work of lost_records.cc at one target, or a part of it.
void World::give_lost(const std::string& id) {
  const Target& giver = targets_.at(id);
  if (!giver.alive || count_ < 2) return;
  for (const int name : giver.names()) {
    const auto all = replicas(name);
    if (!giver.has_full_view(name) || std::find(all.begin(), all.end(), id) == all.end()) continue;
    for (const std::string& to : all)
      if (targets_.at(to).alive && targets_.at(to).any_away() && pick(4) != 0)
        give(to, name, giver.shown(name));
  }
}

/// False: a target could not be given it.
bool World::move(const std::string& id, int name) {
  if (targets_.at(id).place(name).away) return false;  // as open_outgoing()
  const Version version = held(id, name);
  if (version == Version{}) return true;
  const NamePlan plan = plan_name(map_, id, digest(name), count());
  for (const std::string& to : plan.send) {
    if (!targets_.at(to).takes(name, count_)) return false;
    give(to, name, version);
  }
  if (plan.keep) return true;
  for (const std::string& to : plan.confirm) {
    if (!targets_.at(to).takes(name, count_)) return false;
    if (held(to, name) >= version) continue;
    if (pick(2) == 0) return false;
    give(to, name, version);
  }
  if (plan.send.empty()) return false;
  targets_.at(id).forget(name);
  return true;
}

bool World::walk(const std::string& id, std::size_t names_max) {
  Target& target = targets_.at(id);
  if (!target.alive) return false;
  const std::set<int> all_names = target.names();
  std::vector<int> names(all_names.begin(), all_names.end());
  std::shuffle(names.begin(), names.end(), random_);
  const bool more = names.size() > names_max;
  if (more) names.resize(names_max);
  bool all = !more && !target.any_away();
  for (const int name : names) all = move(id, name) && all;
  if (all) target.moved = map_.version;
  return all;
}

void World::forget() {
  const auto done = [&](const std::string& id) {
    const auto found = targets_.find(id);
    return found != targets_.end() && found->second.alive && found->second.moved >= map_.version;
  };
  auto next = without_done_sets(map_, done);
  if (!next) next = with_given_sets(map_, done);
  if (next) map_ = std::move(*next);
}

void World::step() {
  if (changes_.copies && pick(25) == 0) change_copies();
  const std::string id = pick_target();
  if (changes_.drives && !id.empty() && pick(3) == 0) return step_of_drives(targets_.at(id), id);
  if (changes_.zones && !id.empty() && pick(10) == 0) return change_zone(id);
  const int what = pick(20);
  if (what < 4) {
    write(pick(kNames));
  } else if (what < 7) {
    if (pick(3) == 0)
      for (const auto& [each, target] : targets_) walk(each, kNames);
    forget();
  } else if (what == 7) {
    join();
  } else if (id.empty()) {
    return;
  } else if (what < 13) {
    walk(id, pick(3) == 0 ? pick_index(6) : kNames);
  } else if (Target& target = targets_.at(id); what == 13) {
    target.alive = false;
  } else if (what == 14) {
    if (!target.alive) flag(id, kDown, 0);
  } else if (what == 15) {
    if (!target.alive && (map_.find(id)->flags & kDown) != 0) flag(id, kOut, 0);
  } else if (what == 16) {
    target.alive = true;
    flag(id, 0, kDown | kOut);
  } else if (what == 17) {
    flag(id, pick(2) == 0 ? kMaintenance : 0, kMaintenance);
  } else if (what == 18) {
    if (pick(3) == 0) remove(id);
  } else if (target.alive && pick(3) == 0) {
    change_drives(target, id);
  }
}

/// Nothing: a target that may have it does not answer, or cannot tell.
std::optional<Version> World::read(const std::string& self, int name) const {
  Version newest = held(self, name);
  const Target& own = targets_.at(self);
  const bool sees = own.has_full_view(name);
  const auto groups =
      readers_of(sees ? map_ : with_loss(map_, self, 0), self, digest(name), count(), newest.map);
  const bool others_know =
      !groups.empty() && std::none_of(groups.begin(), groups.end(),
                                      [](const ReadGroup& group) { return group.all_needed; });
  if (!sees && !others_know) return std::nullopt;
  for (const ReadGroup& group : groups) {
    bool heard = false;
    for (const std::string& id : group.replicas) {
      if (!targets_.at(id).can_tell(name)) {
        if (group.all_needed) return std::nullopt;
        continue;
      }
      heard = true;
      newest = std::max(newest, held(id, name));
      if (!group.all_needed) break;
    }
    if (!heard && !group.all_needed) return std::nullopt;
  }
  // A drive that is away may hold something newer than nothing.
  if (sees && newest == Version{} && own.any_away()) return std::nullopt;
  return newest;
}

std::string World::check() {
  for (auto& [name, version] : acknowledged_) {
    const bool lost = std::none_of(targets_.begin(), targets_.end(), [&](const auto& each) {
      return each.second.has_as_new(name, version);
    });
    if (lost) version = {};
    for (const std::string& replica : replicas(name)) {
      if (!targets_.at(replica).alive) continue;
      const auto said = read(replica, name);
      if (said && *said < version)
        return replica + " answers too little for name " + std::to_string(name) + " in map " +
               std::to_string(map_.version);
    }
  }
  return "";
}

bool World::rest() {
  for (auto& [id, target] : targets_) {
    target.alive = true;
    for (ModelDrive& drive : target.drives) drive.away = false;
    target.drop_overtaken();
    target.resilver();
    flag(id, 0, kDown | kOut | kMaintenance);
  }
  // Until a round in which nothing was left to do: a copy may be refused several times.
  bool rests = false;
  for (int i = 0; i < 60 && !rests; ++i) {
    const auto before = map_.version;
    rests = true;
    for (const auto& [id, target] : targets_) rests = walk(id, kNames) && rests;
    forget();
    rests = rests && map_.version == before && map_.past.empty();
  }
  return map_.past.empty();
}

std::string World::check_quiescent() const {
  for (const auto& [name, version] : acknowledged_) {
    const auto all = replicas(name);
    for (const auto& [id, target] : targets_) {
      const bool is_replica = std::find(all.begin(), all.end(), id) != all.end();
      if (is_replica && held(id, name) < version) return id + " lacks name " + std::to_string(name);
      if (!is_replica && target.holds(name)) return id + " keeps name " + std::to_string(name);
      // A version that all its targets lost may be back with a drive, and go again before it has
      // come to all replicas.
      const bool was_lost = version == Version{};
      if (is_replica && !was_lost && held(id, name) != held(all.front(), name))
        return id + " differs in name " + std::to_string(name);
    }
  }
  return "";
}

void run_worlds(std::size_t count, int worlds, const Changes& changes = {}) {
  int zones_used = 0;
  const auto first = test_seed();
  for (int i = 0; i < worlds; ++i) {
    const std::uint32_t seed = first + static_cast<std::uint32_t>(i);
    CAPTURE(seed, count);
    World world(seed, count, changes);
    for (int step = 0; step < kSteps; ++step) {
      CAPTURE(step);
      world.step();
      if (step % kCheckEvery != 0) continue;
      const std::string wrong = world.check();
      if (!wrong.empty()) FAIL(wrong);
    }
    REQUIRE(world.rest());
    REQUIRE(world.check() == "");
    REQUIRE(world.check_quiescent() == "");
    zones_used += world.zones_used();
  }
  CHECK((zones_used > worlds || !changes.zones));
}

TEST_CASE("copies on nodes: no replica says less than what was acknowledged", "[ownership]") {
  run_worlds(2, 200);
  run_worlds(3, 200);
}

TEST_CASE("copies on nodes: drives are away, and others give what lay there", "[ownership]") {
  run_worlds(2, 300, {.drives = true});
  run_worlds(3, 300, {.copies = true, .drives = true});
}

TEST_CASE("copies on nodes: their number changes", "[ownership]") {
  run_worlds(1, 150, {.copies = true});
  run_worlds(2, 150, {.copies = true});
}

TEST_CASE("copies on nodes: targets come with other zones, or without", "[ownership][zones]") {
  run_worlds(2, 100, {.zones = true});
  run_worlds(3, 100, {.copies = true, .zones = true});
  run_worlds(3, 100, {.drives = true, .zones = true});
  run_worlds(3, 200, {.copies = true, .drives = true, .zones = true});
}

}  // namespace copies_model_test
}  // namespace tarn::cluster
