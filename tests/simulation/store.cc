#include "tests/simulation/store.h"

#include <algorithm>
#include <utility>

#include "common/base/fail_point.h"
#include "tests/simulation/map_changes.h"

namespace tarn::simulation {

Store::Store(World& world, std::size_t targets, std::size_t places)
    : world_(world), targets_(targets), places_(places), live_(targets + 1), stopped_(places) {
  world_.start(kStore);
}

StatePtr Store::newest() {
  if (!states_.empty() && states_.back()->revision == revision_) return states_.back();
  auto state = std::make_shared<cluster::OwnershipState>();
  state->revision = revision_;
  state->map = map_;
  state->settled = settled_;
  for (Place target = 1; target <= targets_; ++target)
    if (live_[target].key.lease != 0) state->live.push_back(live_[target].status);
  states_.push_back(std::move(state));
  if (states_.size() > 6) states_.pop_front();
  return states_.back();
}

void Store::stop_news(Place place) { stopped_[place] = newest(); }

StatePtr Store::read(Place place) {
  if (stopped_[place]) return stopped_[place];
  StatePtr now = newest();
  if (!world_.random.one_in(8)) return now;
  return states_[static_cast<std::size_t>(
      world_.random.up_to(static_cast<std::int64_t>(states_.size()) - 1))];
}

void Store::changed() {
  ++revision_;
  const StatePtr state = newest();
  for (Place place = 1; place < places_; ++place) {
    if (!world_.up(place) || stopped_[place]) continue;
    ++messages;
    world_.send(kStore, place, [this, place, state] { watcher(place, state); });
  }
}

Store::Told Store::enlist(Place target, bool empty, std::int64_t expected,
                          cluster::TargetStatus status) {
  Live& live = live_[target];
  if (SAFETY("safety.compare_status") && live.key.changed != expected)
    return {false, false, live.key};
  if (map_->find(id(target)) == nullptr) {
    if (!empty) return {false, true, live.key};
    cluster::Member member;
    member.id = id(target);
    member.digest = cluster::placement_digest(member.id);
    map_ = std::make_shared<cluster::Ownership>(cluster::with_member(*map_, std::move(member)));
    world_.trace("map {}: {} joins", map_->version, id(target));
  }
  status.id = id(target);
  live = {{revision_ + 1, revision_ + 1}, world_.now() + kLeaseTerm, std::move(status)};
  changed();
  expire(target, live.key.lease);
  return {true, false, live.key};
}

void Store::expire(Place target, std::int64_t lease) {
  world_.at(live_[target].expires, [this, target, lease] {
    Live& live = live_[target];
    if (live.key.lease != lease) return;
    // A store that does not run ends no lease, and one that starts gives all a new term.
    if (world_.paused(kStore)) live.expires = world_.now() + kLeaseTerm;
    if (live.expires > world_.now()) return expire(target, lease);
    world_.trace("lease of {} ended", id(target));
    live = {};
    changed();
  });
}

bool Store::renew(Place target, std::int64_t lease) {
  if (live_[target].key.lease != lease) return false;
  live_[target].expires = world_.now() + kLeaseTerm;
  return true;
}

Store::Told Store::tell(Place target, std::int64_t lease, std::int64_t expected,
                        cluster::TargetStatus status) {
  Live& live = live_[target];
  const bool same = !SAFETY("safety.compare_status") || live.key.changed == expected;
  if (live.key.lease != lease || !same) return {false, false, live.key};
  live.status = std::move(status);
  live.key.changed = revision_ + 1;
  changed();
  return {true, false, live.key};
}

bool Store::commit(cluster::CoordinatorStep step) {
  if (step.map_version != map_->version || step.settled_before != settled_) return false;
  const auto is_live = [&](const std::string& who) {
    for (Place target = 1; target <= targets_; ++target)
      if (id(target) == who) return live_[target].key.lease != 0;
    return false;
  };
  for (const std::string& who : step.absent)
    if (is_live(who)) return false;
  for (const std::string& who : step.present)
    if (!is_live(who)) return false;
  if (step.settle) {
    settled_ = *step.settle;
    world_.trace("settled {}", settled_);
  }
  if (step.publish) {
    map_ = std::make_shared<cluster::Ownership>(std::move(*step.publish));
    if (world_.tracing()) {
      std::string text;
      for (const auto& member : map_->members)
        text +=
            fmt::format(" {}{}", member.id, member.owns() ? "" : fmt::format("/{}", member.flags));
      for (const auto& past : map_->past) {
        text += fmt::format(" | to {}:", past.last);
        for (std::size_t i = 0; i < past.nodes.size(); ++i) text += " " + past.nodes.id(i);
      }
      world_.trace("map {}:{}", map_->version, text);
    }
  }
  changed();
  return true;
}

void Store::set_flags(Place target, std::uint64_t set, std::uint64_t clear) {
  auto next = cluster::with_flags(*map_, id(target), set, clear);
  if (!next || next->current.empty()) return;  // a target must own names
  map_ = std::make_shared<cluster::Ownership>(std::move(*next));
  world_.trace("map {}: operator sets flags of {} to {}", map_->version, id(target),
               map_->find(id(target))->flags);
  changed();
}

}  // namespace tarn::simulation
