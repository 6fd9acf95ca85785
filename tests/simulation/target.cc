#include "tests/simulation/target.h"

#include <algorithm>
#include <utility>

#include "common/base/fail_point.h"

namespace tarn::simulation {
namespace {

constexpr Time kRenewEvery = kSecond;
constexpr Time kAskMax = 2 * kSecond;
constexpr int kWaitsMax = 6;

bool newer(const std::optional<Record>& a, const std::optional<Record>& b) {
  return a && (!b || a->generation > b->generation);
}

}  // namespace

Target::Target(Nodes& nodes, Place place) : nodes_(nodes), place_(place), id_(Store::id(place)) {
  for (auto& drive : disk_) drive.resize(nodes.names.size());
}

// --- life ---------------------------------------------------------------------------------------

void Target::boot(unsigned missing) {
  world().start(place_);
  world().trace("{} starts{}", id_, missing == 0 ? "" : " without a drive");
  missing_ = missing;
  hung_until_ = 0;
  hand_over_ = std::make_unique<cluster::HandOver>(id_);
  lease_ = key_changed_ = 0;
  valid_until_ = 0;
  incarnation_ = counter_ = 0;
  telling_ = false;
  told_ = {};
  locked_.assign(nodes_.names.size(), false);
  sending_.assign(nodes_.names.size(), false);
  tick();
}

void Target::crash() {
  world().trace("{} dies", id_);
  for (const Syncing& sync : std::exchange(syncing_, {}))
    if (world().random.one_in(2)) write_disk(sync.name, sync.record);
  world().kill(place_);
}

void Target::tick() {
  renew();
  poll();
  tell();
  rebalance();
  forget_tombstones();
  world().after(place_, kRenewEvery, [this] { tick(); });
}

// --- lease and status ---------------------------------------------------------------------------

std::int64_t Target::lease() const {
  return nodes_.world.local(place_) < valid_until_ ? lease_ : 0;
}

void Target::renew() {
  if (lease_ == 0) return enlist();
  const Time sent = world().local(place_);
  ++nodes_.store.messages;
  const auto answered = [this, sent, lease = lease_](bool kept) {
    if (lease == lease_) renewed(kept, sent);
  };
  world().send(place_, kStore, [this, answered, lease = lease_, life = world().epoch(place_)] {
    const bool kept = nodes_.store.renew(place_, lease);
    ++nodes_.store.messages;
    world().send(kStore, place_, [answered, kept] { answered(kept); }, life);
  });
}

void Target::poll() {
  ++nodes_.store.messages;
  world().send(place_, kStore, [this, life = world().epoch(place_)] {
    ++nodes_.store.messages;
    world().send(kStore, place_, [this, state = nodes_.store.read(place_)] { learn(state); }, life);
  });
}

void Target::renewed(bool kept, Time sent) {
  if (!kept) {
    lease_ = 0;
    return enlist();
  }
  const Time from = SAFETY("safety.lease_from_send") ? sent : world().local(place_);
  valid_until_ = std::max(valid_until_, from + kLeaseTerm - kLeaseMargin);
}

void Target::enlist() {
  const Time sent = world().local(place_);
  bool empty = hand_over_->idle() || !SAFETY("safety.idle_before_join");
  for (std::size_t name = 0; name < nodes_.names.size(); ++name) empty = empty && !on_disk(name);
  auto status = hand_over_->status(false);
  ++nodes_.store.messages;
  const auto answered = [this, sent, status](const Store::Told& told, const StatePtr& state) {
    // The refusal may be old: an operator looks before emptying anything.
    if (told.fenced && nodes_.store.newest()->map->find(id_) == nullptr) {
      world().trace("{} is fenced; its operator empties it", id_);
      wipe();
    }
    key_changed_ = told.key.changed;
    if (!told.done || told.key.lease < lease_) return;
    lease_ = told.key.lease;
    if (incarnation_ == 0) incarnation_ = static_cast<std::uint64_t>(lease_);
    valid_until_ = std::max(valid_until_, sent + kLeaseTerm - kLeaseMargin);
    telling_ = false;
    told_ = status;
    // In the nodes the state comes by another call: it may be late.
    if (!world().random.one_in(4)) learn(state);
  };
  world().send(
      place_, kStore,
      [this, answered, empty, status, expected = key_changed_, life = world().epoch(place_)] {
        const auto told = nodes_.store.enlist(place_, empty, expected, status);
        world().send(
            kStore, place_,
            [answered, told, state = nodes_.store.newest()] { answered(told, state); }, life);
      });
}

bool Target::holds_only_its_own() const {
  if (missing_ != 0) return false;
  const auto& state = *hand_over_->state();
  if (state.settled < state.map->version) return false;
  for (std::size_t name = 0; name < nodes_.names.size(); ++name)
    if (on_disk(name) && !is_replica(name)) return false;
  return true;
}

void Target::tell() {
  if (lease_ == 0 || telling_ || !knows()) return;
  auto status = hand_over_->status(holds_only_its_own());
  if (status.map_version == told_.map_version && status.moved == told_.moved &&
      status.under_way == told_.under_way)
    return;
  telling_ = true;
  ++nodes_.store.messages;
  const auto answered = [this, status, lease = lease_](const Store::Told& told) {
    if (lease != lease_) return;
    telling_ = false;
    key_changed_ = told.key.changed;
    if (told.done) told_ = status;
    tell();
  };
  world().send(place_, kStore,
               [this, answered, status, lease = lease_, expected = key_changed_,
                life = world().epoch(place_)] {
                 const auto told = nodes_.store.tell(place_, lease, expected, status);
                 world().send(kStore, place_, [answered, told] { answered(told); }, life);
               });
  world().after(place_, kRenewEvery, [this, lease = lease_] {
    if (lease == lease_) telling_ = false;
  });
}

void Target::learn(const StatePtr& state) {
  const auto before = hand_over_->state();
  hand_over_->learn(state);
  if (before == hand_over_->state()) return;
  tell();
  if (before == nullptr || before->map->version != map().version ||
      before->settled != hand_over_->state()->settled) {
    sending_.assign(nodes_.names.size(), false);
    rebalance();
  }
}

void Target::with_version(std::uint64_t version, const std::function<void(bool)>& then) {
  if (knows() && map().version >= version) return then(true);
  world().send(place_, kStore, [this, version, then, life = world().epoch(place_)] {
    const auto answered = [this, version, then, state = nodes_.store.newest()] {
      learn(state);
      then(map().version >= version);
    };
    world().send(kStore, place_, answered, life);
  });
}

// --- disk ---------------------------------------------------------------------------------------

std::optional<Record> Target::newest(std::size_t name) const {
  std::optional<Record> best;
  for (std::size_t drive = 0; drive < kDrives; ++drive)
    if ((missing_ >> drive & 1U) == 0 && newer(disk_[drive][name], best)) best = disk_[drive][name];
  return best;
}

std::optional<Record> Target::on_disk(std::size_t name) const {
  return newer(disk_[0][name], disk_[1][name]) ? disk_[0][name] : disk_[1][name];
}

/// A drive that is away may hold something newer than all but what was written since.
bool Target::is_authoritative_for(const std::optional<Record>& record) const {
  return missing_ == 0 || (record && record->generation.incarnation == incarnation_);
}

void Target::write_disk(std::size_t name, const Record& record) {
  std::size_t drive = name % kDrives;
  if ((missing_ >> drive & 1U) != 0) drive = (drive + 1) % kDrives;
  if (!newer(disk_[drive][name], record)) disk_[drive][name] = record;
  // Records that it replaces on other drives are unlinked.
  for (std::size_t other = 0; other < kDrives; ++other)
    if (other != drive && (missing_ >> other & 1U) == 0 && newer(record, disk_[other][name]))
      disk_[other][name].reset();
}

void Target::erase(std::size_t name, const Generation& up_to) {
  for (std::size_t drive = 0; drive < kDrives; ++drive) {
    auto& record = disk_[drive][name];
    if ((missing_ >> drive & 1U) == 0 && record && record->generation <= up_to) record.reset();
  }
}

void Target::wipe() {
  for (auto& drive : disk_) drive.assign(nodes_.names.size(), std::nullopt);
}

Time Target::disk_delay() {
  const Time hung = std::max<Time>(0, hung_until_ - world().now());
  return hung + (world().random.one_in(16)
                     ? world().random.up_to(9 * kSecond)
                     : world().random.between(kMillisecond, 30 * kMillisecond));
}

bool Target::is_replica(std::size_t name) const {
  return cluster::writer_of(map(), nodes_.digests[name]) == id_;
}

// --- PUT and DELETE -----------------------------------------------------------------------------

struct Target::Write {
  std::size_t name = 0;
  Value value = 0;
  bool create = false;
  Reply reply;
  Generation acknowledged_before;
  cluster::HandOver::WriteId id = 0;
};

struct Target::Read {
  std::size_t name = 0;
  Reply reply;
  int attempts = 0;
  std::uint64_t version = 0;
  std::size_t waiting = 0;
  bool over = false;
  std::vector<std::string> answered;
  std::optional<Record> best;
};

void Target::put(std::size_t name, Value value, bool create, std::uint64_t version,
                 const Reply& reply) {
  auto write = std::make_shared<Write>();
  write->name = name;
  write->value = value;
  write->create = create;
  write->reply = reply;
  with_version(version, [this, write](bool caught_up) {
    if (!caught_up) return write->reply({});
    try_put(write, 0);
  });
}

void Target::try_put(const std::shared_ptr<Write>& write, int attempt) {
  using Verdict = cluster::HandOver::Verdict;
  if (lease() == 0) return write->reply({});
  const auto verdict = hand_over_->may_begin(nodes_.names[write->name], lease());
  if (verdict == Verdict::not_owner)
    return write->reply({Answer::Kind::other_owner, 0, map().version});
  if (verdict != Verdict::yes) {
    if (attempt == kWaitsMax) return write->reply({});
    return world().after(place_, 200 * kMillisecond,
                         [this, write, attempt] { try_put(write, attempt + 1); });
  }
  write->id = hand_over_->begin(nodes_.names[write->name], lease());
  write->acknowledged_before = nodes_.acknowledged[write->name];
  const Time body = world().random.one_in(4) ? world().random.up_to(8 * kSecond)
                                             : world().random.up_to(100 * kMillisecond);
  world().after(place_, body, [this, write] { commit(write); });
}

void Target::commit(const std::shared_ptr<Write>& write) {
  if (locked_[write->name])
    return world().after(place_, 50 * kMillisecond, [this, write] { commit(write); });
  locked_[write->name] = true;
  if (write->create) {
    check_absent(write);
  } else {
    write_out(write);
  }
}

/// Under the name's lock. A target that no longer owns the name cannot tell.
void Target::check_absent(const std::shared_ptr<Write>& write) {
  auto read = std::make_shared<Read>();
  read->name = write->name;
  read->reply = [this, write](Answer answer) {
    if (answer.kind == Answer::Kind::done && answer.value == 0) return write_out(write);
    locked_[write->name] = false;
    end(write, answer.kind == Answer::Kind::done ? Answer::Kind::exists : Answer::Kind::no_effect);
  };
  try_get(read);
}

void Target::write_out(const std::shared_ptr<Write>& write) {
  const auto give_up = [&] {
    locked_[write->name] = false;
    end(write, Answer::Kind::no_effect);
  };
  if (!hand_over_->commit(write->id, lease())) return give_up();
  const Generation generation =
      cluster::make_generation(hand_over_->map_version(write->id), incarnation_, ++counter_);
  const auto present = newest(write->name);
  if (present && present->generation >= generation) return give_up();
  const Record record{generation, write->value};
  syncing_.push_back({write->name, record, ++syncs_});
  world().after(place_, disk_delay(), [this, write, record, number = syncs_] {
    std::erase_if(syncing_, [&](const Syncing& sync) { return sync.number == number; });
    stored(write, record);
  });
}

void Target::stored(const std::shared_ptr<Write>& write, const Record& record) {
  write_disk(write->name, record);
  locked_[write->name] = false;
  world().trace("{} stored {} = {} as {}.{}.{}", id_, nodes_.names[write->name], write->value,
                record.generation.map_version, record.generation.incarnation,
                record.generation.counter);
  const bool acknowledge =
      !SAFETY("safety.lease_before_reply") || hand_over_->may_acknowledge(write->id, lease());
  if (acknowledge) {
    Generation& highest = nodes_.acknowledged[write->name];
    if (record.generation <= write->acknowledged_before)
      nodes_.violated(
          fmt::format("{} acknowledges {} = {} with a generation that is not above one "
                      "acknowledged before it began",
                      id_, nodes_.names[write->name], write->value));
    highest = std::max(highest, record.generation);
  }
  end(write, acknowledge ? Answer::Kind::done : Answer::Kind::unknown);
  rebalance();
}

void Target::end(const std::shared_ptr<Write>& write, Answer::Kind kind) {
  hand_over_->end(write->id);
  tell();
  write->reply({kind, write->value, map().version});
}

// --- GET ----------------------------------------------------------------------------------------

void Target::get(std::size_t name, std::uint64_t version, const Reply& reply) {
  auto read = std::make_shared<Read>();
  read->name = name;
  read->reply = reply;
  with_version(version, [this, read](bool caught_up) {
    if (!caught_up) return read->reply({});
    try_get(read);
  });
}

void Target::try_get(const std::shared_ptr<Read>& read) {
  // Without a lease the answer is marked stale, and not the checker's.
  if (lease() == 0 ||
      (SAFETY("safety.learn_before_lease") && hand_over_->state()->revision < lease()))
    return read->reply({});
  if (!is_replica(read->name)) return read->reply({Answer::Kind::other_owner, 0, map().version});
  read->version = map().version;
  read->answered.clear();
  read->over = false;
  read->best = newest(read->name);
  if (!is_authoritative_for(read->best)) return read->reply({});
  const auto groups = cluster::readers_of(map(), id_, nodes_.digests[read->name], 1,
                                          read->best ? read->best->generation.map_version : 0);
  read->waiting = groups.size();
  if (groups.empty()) return asked_all(read);
  for (const auto& group : groups) {
    ask(read, nodes_.target(group.replicas.front()));
  }
  world().after(place_, kAskMax, [this, read, attempt = read->attempts] {
    if (!read->over && read->attempts == attempt) asked_all(read);
  });
}

void Target::ask(const std::shared_ptr<Read>& read, Target& other) {
  ++nodes_.store.messages;
  const auto answered = [this, read, id = other.id_, attempt = read->attempts](const Found& found) {
    if (read->over || read->attempts != attempt) return;
    if (found.is_authoritative) read->answered.push_back(id);
    if (found.is_authoritative && newer(found.record, read->best)) read->best = found.record;
    if (--read->waiting == 0) asked_all(read);
  };
  world().send(place_, other.place_, [this, read, &other, answered, life = world().epoch(place_)] {
    other.look_up(read->name, read->version, [this, &other, answered, life](const Found& found) {
      ++nodes_.store.messages;
      world().send(other.place_, place_, [answered, found] { answered(found); }, life);
    });
  });
}

void Target::asked_all(const std::shared_ptr<Read>& read) {
  read->over = true;
  // It may have moved here while the others were asked: what they no longer had is here now.
  const auto own = newest(read->name);
  if (SAFETY("safety.look_again") && newer(own, read->best)) read->best = own;
  if (SAFETY("safety.same_map") && map().version != read->version) {
    if (++read->attempts == 3) return read->reply({});
    return try_get(read);
  }
  const auto still = cluster::readers_of(map(), id_, nodes_.digests[read->name], 1,
                                         read->best ? read->best->generation.map_version : 0);
  for (const auto& group : still)
    if (std::find(read->answered.begin(), read->answered.end(), group.replicas.front()) ==
        read->answered.end())
      return read->reply({});
  read->reply({Answer::Kind::done, read->best ? read->best->value : 0, map().version});
}

void Target::look_up(std::size_t name, std::uint64_t version,
                     const std::function<void(const Found&)>& reply) {
  with_version(version, [this, name, version, reply](bool) {
    if (!hand_over_->is_quiescent(nodes_.names[name]))
      return world().after(place_, 50 * kMillisecond,
                           [this, name, version, reply] { look_up(name, version, reply); });
    const auto record = newest(name);
    const bool same = !SAFETY("safety.same_map") || map().version == version;
    reply({same && is_authoritative_for(record), record});
  });
}

void Target::list(bool own, std::uint64_t version,
                  const std::function<void(std::optional<Listed>)>& reply) {
  with_version(version, [this, own, version, reply](bool) {
    const bool fresh = lease() != 0 && hand_over_->state()->revision >= lease();
    if (map().version != version || missing_ != 0 || (own && !fresh)) return reply(std::nullopt);
    Listed out(nodes_.names.size());
    for (std::size_t name = 0; name < out.size(); ++name) {
      if (is_replica(name) != own) continue;
      if (!own && !hand_over_->is_quiescent(nodes_.names[name]))
        return world().after(place_, 50 * kMillisecond,
                             [this, own, version, reply] { list(own, version, reply); });
      out[name] = newest(name);
    }
    reply(std::move(out));
  });
}
}  // namespace tarn::simulation
