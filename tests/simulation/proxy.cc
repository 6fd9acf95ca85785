#include "tests/simulation/proxy.h"

#include <algorithm>
#include <utility>

#include "common/base/fail_point.h"

namespace tarn::simulation {
namespace {

constexpr Time kPatience = 4 * kSecond;
constexpr std::size_t kOperationsMax = 60;  // on one name; the checker takes 64

}  // namespace

Proxy::Proxy(Nodes& nodes, Place place, std::vector<std::vector<Operation>>& history)
    : nodes_(nodes), place_(place), history_(history) {}

void Proxy::boot() {
  world().start(place_);
  tick();
}

void Proxy::forget() {
  state_.reset();
  absent_since_.clear();
}

void Proxy::learn(const StatePtr& state) {
  if (state_ && state->revision <= state_->revision) return;
  state_ = state;
  for (const auto& member : state_->map->members) {
    if (state_->find(member.id) != nullptr) {
      absent_since_.erase(member.id);
    } else {
      absent_since_.emplace(member.id, world().now());
    }
  }
  coordinate();
}

void Proxy::tick() {
  ++nodes_.store.messages;
  world().send(place_, kStore, [this, life = world().epoch(place_)] {
    ++nodes_.store.messages;
    world().send(kStore, place_, [this, state = nodes_.store.read(place_)] { learn(state); }, life);
  });
  coordinate();
  world().after(place_, kSecond, [this] { tick(); });
}

// --- coordinator --------------------------------------------------------------------------------

std::chrono::nanoseconds Proxy::absent_for(const std::string& id) const {
  const auto found = absent_since_.find(id);
  if (found == absent_since_.end()) return std::chrono::nanoseconds(0);
  const auto absent = std::chrono::microseconds(nodes_.world.now() - found->second);
  return may_fence(id) ? std::chrono::nanoseconds(absent)
                       : std::min<std::chrono::nanoseconds>(
                             absent, limits.tombstone_keep - std::chrono::nanoseconds(1));
}

void Proxy::coordinate() {
  if (!state_) return;
  auto step =
      cluster::next_step(*state_, [this](const std::string& id) { return absent_for(id); }, limits);
  if (!step) return;
  ++nodes_.store.messages;
  world().send(place_, kStore, [this, step = std::move(*step)] { nodes_.store.commit(step); });
}

// --- clients ------------------------------------------------------------------------------------

struct Proxy::Request {
  std::size_t name = 0;
  bool write = false;
  bool create = false;
  Value value = 0;
  Time begin = 0;
  int hops = 0;
  std::size_t entry = 0;  // of a write in the history
  bool over = false;
  std::function<void(bool answered)> then;
};

void Proxy::run_client(int count) {
  world().after(place_, world().random.up_to(2 * kSecond),
                [this, count] { next_operation(count); });
}

void Proxy::next_operation(int left) {
  if (left == 0) return;
  const auto go_on = [this, left](bool) {
    world().after(place_, world().random.up_to(1500 * kMillisecond),
                  [this, left] { next_operation(left - 1); });
  };
  const auto kind = world().random.up_to(9);  // list, 3 puts, 2 creates, 2 deletes, 2 reads
  if (kind == 0) return list(go_on);
  auto request = std::make_shared<Request>();
  request->name = static_cast<std::size_t>(
      world().random.up_to(static_cast<std::int64_t>(nodes_.names.size()) - 1));
  if (history_[request->name].size() >= kOperationsMax) return;  // enough to check
  request->write = kind <= 7;
  request->create = kind == 4 || kind == 5;
  if (request->write) request->value = kind > 5 ? 0 : ++nodes_.last_value;
  request->begin = world().now();
  request->then = go_on;
  if (request->write) {  // until it is known better, its outcome is unknown
    request->entry = history_[request->name].size();
    history_[request->name].push_back(
        {request->create ? Operation::Kind::create : Operation::Kind::put, request->value,
         request->begin, Operation::kNever, false});
  }
  send(request);
}

void Proxy::send(const std::shared_ptr<Request>& request) {
  const Value value = request->value;
  const std::size_t name = request->name;
  if (!state_ || state_->map->current.empty()) return finish(request, {});
  const std::string owner = cluster::writer_of(*state_->map, nodes_.digests[name]);
  Target& target = nodes_.target(owner);
  if (request->hops == 0)
    world().after(place_, kPatience * (1 + world().random.up_to(2)), [this, request] {
      finish(request, {request->write ? Answer::Kind::unknown : Answer::Kind::no_effect, 0, 0});
    });
  const Reply reply = [this, request, &target, life = world().epoch(place_)](Answer answer) {
    world().send(
        target.place(), place_, [this, request, answer] { answered(request, answer); }, life);
  };
  world().send(place_, target.place(),
               [request, &target, name, value, version = state_->map->version, reply] {
                 if (request->write) {
                   target.put(name, value, request->create, version, reply);
                 } else {
                   target.get(name, version, reply);
                 }
               });
}

/// A target that knows a newer map sends the client on, twice at most.
void Proxy::answered(const std::shared_ptr<Request>& request, Answer answer) {
  if (request->over) return;
  if (answer.kind != Answer::Kind::other_owner) return finish(request, answer);
  if (++request->hops > 2) return finish(request, {});
  world().send(place_, kStore, [this, request, life = world().epoch(place_)] {
    const auto again = [this, request, state = nodes_.store.newest()] {
      learn(state);
      if (!request->over) send(request);
    };
    world().send(kStore, place_, again, life);
  });
}

void Proxy::finish(const std::shared_ptr<Request>& request, Answer answer) {
  if (std::exchange(request->over, true)) return;
  auto& operations = history_[request->name];
  const bool done = answer.kind == Answer::Kind::done;
  world().trace("client {} {} = {}: {}",
                request->create  ? "create"
                : request->write ? "put"
                                 : "get",
                nodes_.names[request->name], request->write ? request->value : answer.value,
                done                                   ? "done"
                : answer.kind == Answer::Kind::unknown ? "unknown"
                : answer.kind == Answer::Kind::exists  ? "exists"
                                                       : "no effect");
  if (request->write) {
    Operation& operation = operations[request->entry];
    if (answer.kind == Answer::Kind::exists) operation.kind = Operation::Kind::exists;
    if (done || answer.kind == Answer::Kind::exists) operation.end = world().now();
    operation.without_effect =
        answer.kind == Answer::Kind::no_effect || answer.kind == Answer::Kind::other_owner;
  } else if (done && operations.size() < kOperationsMax) {
    operations.push_back(
        {Operation::Kind::read, answer.value, request->begin, world().now(), false});
  }
  request->then(done);
}

// --- lists --------------------------------------------------------------------------------------

struct Proxy::Listing {
  Time begin = 0;
  StatePtr state;
  std::size_t waiting = 0;
  bool over = false;
  Target::Listed found;
  std::function<void(bool)> done;
};

/// First what is misplaced, then what is in place: what moves in between is in the second round.
/// Without past epochs the first is empty.
void Proxy::list(const std::function<void(bool)>& done) {
  auto listing = std::make_shared<Listing>();
  listing->begin = world().now();
  listing->state = state_;
  listing->found.resize(nodes_.names.size());
  listing->done = done;
  if (!state_ || state_->map->current.empty()) return done(false);
  world().after(place_, kPatience, [listing] {
    if (!std::exchange(listing->over, true)) listing->done(false);
  });
  const bool moving = !state_->map->past.empty() && SAFETY("safety.list_misplaced_first");
  list_round(listing, !moving);
}

void Proxy::list_round(const std::shared_ptr<Listing>& listing, bool own) {
  std::vector<std::string> ids;
  const auto& map = *listing->state->map;
  if (own) {
    for (std::size_t i = 0; i < map.current.size(); ++i) ids.push_back(map.current.id(i));
  } else {
    ids = cluster::may_hold_any(map);
  }
  listing->waiting = ids.size();
  const auto answered = [this, listing, own](const std::optional<Target::Listed>& records) {
    if (listing->over) return;
    if (!records) {
      listing->over = true;
      return listing->done(false);
    }
    for (std::size_t name = 0; name < records->size(); ++name) {
      auto& best = listing->found[name];
      const auto& record = (*records)[name];
      if (record && (!best || record->generation > best->generation)) best = record;
    }
    if (--listing->waiting > 0) return;
    if (own) return listed(listing);
    list_round(listing, true);
  };
  for (const std::string& id : ids) {
    Target& target = nodes_.target(id);
    const auto reply = [this, &target, answered, life = world().epoch(place_)](
                           const std::optional<Target::Listed>& records) {
      world().send(target.place(), place_, [answered, records] { answered(records); }, life);
    };
    world().send(place_, target.place(), [&target, own, version = map.version, reply] {
      target.list(own, version, reply);
    });
  }
}

void Proxy::listed(const std::shared_ptr<Listing>& listing) {
  listing->over = true;
  for (std::size_t name = 0; name < listing->found.size(); ++name) {
    const auto& record = listing->found[name];
    const Operation operation{Operation::Kind::read, record ? record->value : 0, listing->begin,
                              world().now(), false};
    world().trace("client lists {} = {}", nodes_.names[name], operation.value);
    if (history_[name].size() < kOperationsMax) history_[name].push_back(operation);
  }
  listing->done(true);
}

// --- at the end ---------------------------------------------------------------------------------

void Proxy::read_all() {
  unread_ = nodes_.names.size() + 1;
  for (std::size_t name = 0; name < nodes_.names.size(); ++name) read_until_answered(name);
  list_until_answered();
}

void Proxy::read_until_answered(std::size_t name) {
  auto request = std::make_shared<Request>();
  request->name = name;
  request->begin = world().now();
  request->then = [this, name](bool answered) {
    if (answered) {
      --unread_;
    } else {
      world().after(place_, 300 * kMillisecond, [this, name] { read_until_answered(name); });
    }
  };
  send(request);
}

void Proxy::list_until_answered() {
  list([this](bool answered) {
    if (answered) {
      --unread_;
    } else {
      world().after(place_, 300 * kMillisecond, [this] { list_until_answered(); });
    }
  });
}

}  // namespace tarn::simulation
