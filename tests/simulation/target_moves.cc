// The part of a target that gives away and takes what moved.

#include <utility>

#include "common/base/fail_point.h"
#include "common/cluster/place/rebalance_plan.h"
#include "tests/simulation/target.h"

namespace tarn::simulation {

void Target::rebalance() {
  if (!knows() || hand_over_->state()->settled < map().version) return;
  for (std::size_t name = 0; name < nodes_.names.size(); ++name) {
    if (sending_[name] || is_replica(name)) continue;
    if (const auto record = newest(name)) send_away(name, *record);
  }
}

void Target::send_away(std::size_t name, const Record& record) {
  const auto plan = cluster::plan_name(map(), id_, nodes_.digests[name], 1);
  if (plan.send.empty()) return;
  sending_[name] = true;
  const std::uint64_t version = map().version;
  Target& other = nodes_.target(plan.send.front());
  ++nodes_.store.messages;
  const auto answered = [this, name, generation = record.generation, version](bool has_it) {
    if (map().version != version) return;
    sending_[name] = false;
    if (!has_it) return;
    erase(name, generation);
    tell();
    rebalance();  // something newer may have been stored meanwhile
  };
  world().send(
      place_, other.place_,
      [this, name, record, version, &other, answered, life = world().epoch(place_)] {
        other.take_copy(name, record, {id_, version}, [this, &other, answered, life](bool has_it) {
          ++nodes_.store.messages;
          world().send(other.place_, place_, [answered, has_it] { answered(has_it); }, life);
        });
      });
  world().after(place_, 2 * kSecond, [this, name, version] {
    if (map().version == version) sending_[name] = false;
  });
}

void Target::take_copy(std::size_t name, const Record& record, const cluster::CopySender& sender,
                       const std::function<void(bool)>& reply) {
  with_version(sender.map_version, [this, name, record, sender, reply](bool caught_up) {
    if (caught_up) store_copy(name, record, sender, reply);
  });
}

void Target::store_copy(std::size_t name, const Record& record, const cluster::CopySender& sender,
                        const std::function<void(bool)>& reply) {
  if (locked_[name])
    return world().after(place_, 50 * kMillisecond, [this, name, record, sender, reply] {
      store_copy(name, record, sender, reply);
    });
  const auto write = hand_over_->begin_copy(nodes_.names[name], 1, sender);
  if (!write) return reply(false);
  const auto present = newest(name);
  if (present && present->generation >= record.generation) {
    hand_over_->end(*write);
    return reply(true);
  }
  locked_[name] = true;
  ++copies_taken;
  syncing_.push_back({name, record, ++syncs_});
  world().after(place_, disk_delay(), [this, name, record, reply, number = syncs_, write] {
    std::erase_if(syncing_, [&](const Syncing& sync) { return sync.number == number; });
    write_disk(name, record);
    locked_[name] = false;
    hand_over_->end(*write);
    world().trace("{} took {} = {} of map {}", id_, nodes_.names[name], record.value,
                  record.generation.map_version);
    reply(true);
    tell();
    rebalance();
  });
}

void Target::forget_tombstones() {
  if (!knows() || missing_ != 0) return;
  for (std::size_t name = 0; name < nodes_.names.size(); ++name) {
    const auto record = newest(name);
    if (!record || record->value != 0 || locked_[name]) continue;
    if (cluster::may_drop_tombstone(map(), id_, nodes_.digests[name], 1, true))
      erase(name, record->generation);
  }
}

}  // namespace tarn::simulation
