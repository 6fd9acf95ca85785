#include "common/cluster/node/node_entry.h"

#include <chrono>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/fail_point.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/place/hrw.h"
#include "common/cluster/place/ownership.h"
#include "common/cluster/store/attempts.h"
#include "common/cluster/store/keys.h"

namespace tarn::cluster {

bool admit(Smap& map, const Node& node) {
  const Ownership before = ownership_of(map);
  Node wanted = node;
  wanted.digest = placement_digest(node.id);
  const auto found = map.nodes.find(node.id);
  bool changed = found == map.nodes.end();
  if (!changed) {
    const Node& have = found->second;
    wanted.flags = have.flags & ~(kDown | kOut);
    wanted.drives = have.drives;
    if (wanted.zone.empty()) wanted.zone = have.zone;
    // Only the coordinator publishes another drive set, with its consequences.
    if (have.drive_set != 0) wanted.drive_set = have.drive_set;
    changed = have.weight != wanted.weight || have.zone != wanted.zone ||
              have.drive_set != wanted.drive_set || have.flags != wanted.flags ||
              have.role != wanted.role || have.public_url != wanted.public_url ||
              have.client_addresses != wanted.client_addresses ||
              have.relay_url != wanted.relay_url || have.internal_url != wanted.internal_url;
  }
  // A target that joins, or gets another share, moves names, whatever was ordered before.
  const bool is_new = found == map.nodes.end();
  const bool other_share = !is_new && found->second.weight != wanted.weight;
  const bool other_zone = !is_new && found->second.zone != wanted.zone;
  map.nodes[node.id] = std::move(wanted);
  const bool moves =
      is_new || other_share || (other_zone && zones_in_use(ownership_of(map).members));
  if (moves && node.role == Role::target) map.rebalance = {};
  const Node* primary = map.find(map.primary);
  if (node.role == Role::proxy && (primary == nullptr || primary->role != Role::proxy)) {
    map.primary = node.id;
    changed = true;
  }
  if (changed) take_ownership(map, with_members(before, ownership_of(map).members));
  return changed;
}

/// Map and live/<id> as they were read.
struct NodeEntry::Attempt {
  Smap map;
  Revision map_revision = 0;
  Revision live_revision = 0;
};

/// A target that is not in the map was taken out, or is new. Objects that it holds may have been
/// deleted and forgotten since.
Task<Status> NodeEntry::check_may_join() {
  if (!is_empty_) co_return Status();
  CO_TRY(const bool empty, co_await is_empty_());
  if (!empty)
    co_return fail(
        Errc::unsupported,
        "target {} holds objects and is not in the cluster map: it was away for too long "
        "or taken out, and what it holds may be out of date. Start it with empty drives: other "
        "directories, or these when all that is in them has been removed, .tarn as well",
        self_.id);
  co_return Status();
}

/// A target without a zone among targets with zones would end the use of them, and move all
/// objects. Nodes of programs that know none would look for objects elsewhere.
Task<Status> NodeEntry::check_zones(const Smap& map) {
  const bool is_new = map.find(self_.id) == nullptr;
  if (is_new && self_.zone.empty() && zones_in_use(ownership_of(map).members))
    co_return fail(Errc::unsupported,
                   "target {} has no zone, and all other targets have one: start it with --zone "
                   "NAME (tarn cluster status shows the zones)",
                   self_.id);
  if (self_.zone.empty() || schema_of(map) == keys::kZonesSchemaText) co_return Status();
  RangeRequest live_keys{std::string(keys::kLive), prefix_end(std::string(keys::kLive)), 0};
  CO_TRY(const auto live, co_await store_.range(std::move(live_keys)));
  for (const KeyValue& item : live.items) {
    CO_TRY(const auto record, decode_live(item));
    if (!record.zones)
      co_return fail(Errc::unsupported,
                     "--zone {}: node {} runs a version of Tarn that knows no zones; update all "
                     "nodes first, and start this target without --zone until then",
                     self_.zone, item.key.substr(keys::kLive.size()));
  }
  co_return Status();
}

/// Refuses with conflict while another process holds live/<id>: until it is gone, or its lease
/// ends.
Status NodeEntry::check_holder(const KeyValue& live, const Smap& map) {
  rival_.reset();
  const auto record = decode_live(live);
  const auto other = record ? parse_holder(record->holder) : std::nullopt;
  if (!other || other->id == holder_.id || !SAFETY("safety.one_holder")) return {};
  const HolderState state = look_at(*other);
  if (state == HolderState::gone) return {};
  rival_ = Rival{*other, state};
  const Node* node = map.find(self_.id);
  return fail(Errc::conflict,
              "node {} runs already, as {}{}: a node runs once. Directories that were copied from "
              "it are not to be started beside it; a node of its own begins with empty ones",
              self_.id, display(*other), node == nullptr ? "" : " at " + node->public_url);
}

Task<Result<NodeEntry::Attempt>> NodeEntry::prepare() {
  RangeRequest map_key{std::string(keys::kMap), "", 0};
  CO_TRY(const auto found, co_await store_.range(std::move(map_key)));
  if (found.items.empty())
    co_return fail(Errc::not_found, "there is no cluster in the meta store yet");
  CO_TRY(const auto moving, co_await read_key(store_, std::string(keys::kMoving)));
  if (moving) co_return fail(Errc::unavailable, "the cluster is being moved into this meta store");
  Attempt out;
  CO_TRY(out.map, decode_map(found.items.front().value));
  out.map_revision = found.items.front().mod_revision;
  const auto known = view_.state();
  if (!known->uuid.empty() && (out.map.uuid != known->uuid || out.map.version < known->map.version))
    co_return fail(Errc::unavailable,
                   "the meta store holds map version {} of cluster {}, this node knows {} of {}",
                   out.map.version, out.map.uuid, known->map.version, known->uuid);
  RangeRequest live_key{keys::live(self_.id), "", 0};
  CO_TRY(const auto live, co_await store_.range(std::move(live_key)));
  if (!live.items.empty()) {
    CO_TRY_OK(check_holder(live.items.front(), out.map));
    out.live_revision = live.items.front().mod_revision;
  }
  const bool is_new = out.map.find(self_.id) == nullptr;
  if (self_.role == Role::target) CO_TRY_OK(co_await check_zones(out.map));
  if (is_new && self_.role == Role::target) CO_TRY_OK(co_await check_may_join());
  co_return out;
}

Task<Status> NodeEntry::enter(std::function<LiveRecord()> status) {
  Held next;
  entering_ = 0;
  for (Attempts attempts; co_await attempts.next();) {
    CO_TRY(Attempt attempt, co_await prepare());
    if (next.lease == 0) {  // as late as can be: it runs from here on
      next.asked = clock_.boot_time();
      CO_TRY(next.lease, co_await store_.grant(term_));
      entering_ = next.lease;
    }
    const LiveRecord record = status();
    const std::string live_key = keys::live(self_.id);
    Transaction transaction;
    transaction.compare.push_back(
        {std::string(keys::kMap), Compare::What::mod_revision, attempt.map_revision});
    transaction.compare.push_back({live_key, Compare::What::mod_revision, attempt.live_revision});
    transaction.compare.push_back({std::string(keys::kMoving), Compare::What::create_revision, 0});
    if (admit(attempt.map, self_)) {
      transaction.puts.push_back({std::string(keys::kMap), nlohmann::json(attempt.map).dump(), 0});
      transaction.puts.push_back(
          {std::string(keys::kMapVersion), std::to_string(attempt.map.version), 0});
      if (schema_of(attempt.map) == keys::kZonesSchemaText)
        transaction.puts.push_back(
            {std::string(keys::kSchema), std::string(keys::kZonesSchemaText), 0});
    }
    transaction.puts.push_back({live_key, encode(record), next.lease});
    CO_TRY(const auto done, co_await store_.commit(std::move(transaction)));
    if (done.succeeded) {
      next.revision = live_revision_ = done.revision;
      held_ = next;
      lease_ = next.lease;
      said_ = record;
      co_return Status();
    }
  }
  co_return fail(Errc::unavailable, "the cluster map changed {} times while node {} joined",
                 Attempts::kMost, self_.id);
}

LeaseId NodeEntry::let_go() {
  held_ = {};
  return lease_.exchange(0);
}

Task<void> NodeEntry::say(LiveRecord record) {
  // Without a lease the next enter() writes the state of that time.
  if (record == said_ || lease_ == 0) co_return;
  if (live_revision_ == 0) {
    const auto read = co_await read_said();
    if (!read) co_return;
  }
  const LeaseId under = lease_;
  if (under == 0) co_return;
  const std::string key = keys::live(self_.id);
  Transaction transaction;
  transaction.compare.push_back({key, Compare::What::mod_revision, live_revision_});
  transaction.puts.push_back({key, encode(record), under});
  const auto done = co_await store_.commit(std::move(transaction));
  if (done && done->succeeded) {
    live_revision_ = done->revision;
    said_ = record;
  } else if (under == lease_) {
    live_revision_ = 0;
  }
}

Task<Status> NodeEntry::read_said() {
  RangeRequest live_key{keys::live(self_.id), "", 0};
  CO_TRY(const auto found, co_await store_.range(std::move(live_key)));
  if (found.items.empty() || found.items.front().lease != lease_)
    co_return fail(Errc::conflict, "node {} is not registered under its lease", self_.id);
  CO_TRY(const auto record, decode_live(found.items.front()));
  live_revision_ = found.items.front().mod_revision;
  said_ = record;
  co_return Status();
}

}  // namespace tarn::cluster
