#include "common/cluster/state/member_change.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/cluster/state/state_builder.h"
#include "common/cluster/store/attempts.h"
#include "common/cluster/store/keys.h"

namespace tarn::cluster {
namespace {

using nlohmann::json;
using Action = MemberChange::Action;

constexpr std::uint64_t kAside = kMaintenance | kDecommission;
constexpr std::uint64_t kOrders = kStops | kErases | kGivenUp;

constexpr std::array<std::pair<std::string_view, Action>, 5> kActions{
    {{"start-maintenance", Action::start_maintenance},
     {"stop-maintenance", Action::stop_maintenance},
     {"decommission-node", Action::decommission},
     {"shutdown-node", Action::shutdown},
     {"rm-unsafe", Action::remove_unsafe}}};

tl::unexpected<Error> malformed(Action action) {
  const auto* word = std::find_if(kActions.begin(), kActions.end(),
                                  [&](const auto& each) { return each.second == action; });
  return fail(Errc::invalid_argument,
              "{}: \"value\" must be {{\"sid\":\"NODE\",\"sids\":[..],\"skip_rebalance\":false}}",
              word->first);
}

void add(std::vector<std::string>& ids, std::string id) {
  if (!id.empty() && std::find(ids.begin(), ids.end(), id) == ids.end())
    ids.push_back(std::move(id));
}

tl::unexpected<Error> member_change_wrong(const Node& node, std::string_view why) {
  return fail(Errc::invalid_argument, "node {} {}", node.id, why);
}

/// Checks for obstacles to `change`, but for those that next_flags() checks.
Status check_node(const Smap& map, const std::set<std::string>& live, const MemberChange& change,
                  const Node& node) {
  if (change.action == Action::stop_maintenance) {
    if ((node.flags & kAside) == 0)
      return member_change_wrong(node, "is not in maintenance: nothing to do");
    return {};
  }
  if (node.id == map.primary)
    return member_change_wrong(
        node,
        "is the primary: make another proxy the primary first (set-primary), or shut the "
        "whole cluster down");
  if (node.role == Role::proxy || change.skip_rebalance || live.contains(node.id)) return {};
  if (change.action == Action::decommission)
    return fail(Errc::conflict,
                "target {} is down and cannot give its names away: start it first, or take it out "
                "with what only it holds (rm-unsafe)",
                node.id);
  return {};
}

/// Its flags afterwards. invalid_argument when it is so already.
Result<std::uint64_t> next_flags(const MemberChange& change, const Node& node) {
  const std::uint64_t flags = node.flags;
  switch (change.action) {
    case Action::stop_maintenance: return flags & ~(kAside | kOrders);
    case Action::start_maintenance:
    case Action::shutdown: {
      if ((flags & kDecommission) != 0)
        return member_change_wrong(node,
                                   "is being decommissioned (stop-maintenance takes that back)");
      const std::uint64_t stops = change.action == Action::shutdown ? kStops : 0;
      if ((flags | kMaintenance | stops) == flags)
        return member_change_wrong(node, "is in maintenance already");
      return flags | kMaintenance | stops;
    }
    case Action::decommission: {
      const std::uint64_t orders = (change.no_shutdown ? 0 : kStops) |
                                   (change.rm_user_data ? kErases : 0) |
                                   (change.skip_rebalance ? kGivenUp : 0);
      if ((flags | kDecommission | orders) == flags)
        return member_change_wrong(node, "is being decommissioned already");
      return (flags & ~kMaintenance) | kDecommission | orders;
    }
    case Action::remove_unsafe: break;
  }
  return (flags & ~kMaintenance) | kDecommission | kGivenUp;
}

Result<Smap> map_of(const RangeResult& found) {
  if (found.items.empty())
    return fail(Errc::unavailable, "there is no cluster map in the meta store");
  return decode_map(found.items.front().value);
}

Smap with_next_version(const Smap& map) {
  Smap out = map;
  ++out.version;
  return out;
}

}  // namespace

std::optional<Action> member_action(std::string_view verb) {
  for (const auto& [word, action] : kActions)
    if (word == verb) return action;
  return std::nullopt;
}

Result<MemberChange> parse_member_change(Action action, const json& value) {
  MemberChange out;
  out.action = action;
  if (!value.is_object()) return malformed(action);
  const json sids = value.value("sids", json());
  const json sid = value.value("sid", json());
  if (!sids.is_null() && !sids.is_array()) return malformed(action);
  if (!sid.is_null() && !sid.is_string()) return malformed(action);
  for (const json& id : sids) {
    if (!id.is_string()) return malformed(action);
    add(out.ids, id.get<std::string>());
  }
  if (sid.is_string()) add(out.ids, sid.get<std::string>());
  if (out.ids.empty()) return malformed(action);
  for (const auto& [key, flag] :
       {std::pair("skip_rebalance", &out.skip_rebalance),
        std::pair("rm_user_data", &out.rm_user_data), std::pair("no_shutdown", &out.no_shutdown)}) {
    const json given = value.value(key, json(false));
    if (!given.is_boolean()) return malformed(action);
    *flag = given.get<bool>();
  }
  return out;
}

bool moves_names(const Smap& map, const MemberChange& change) {
  if (change.skip_rebalance || change.action == Action::remove_unsafe) return false;
  return std::any_of(change.ids.begin(), change.ids.end(), [&](const std::string& id) {
    const Node* node = map.find(id);
    return node != nullptr && node->role == Role::target;
  });
}

Result<Smap> with_member_change(const Smap& map, const std::set<std::string>& live,
                                const MemberChange& change) {
  Smap next = map;
  for (const std::string& id : change.ids) {
    const auto found = next.nodes.find(id);
    if (found == next.nodes.end())
      return fail(Errc::not_found, "node '{}' is not in the cluster map", id);
    TRY_OK(check_node(map, live, change, found->second));
    TRY(found->second.flags, next_flags(change, found->second));
  }
  if (next.placeable_targets().empty() && !map.placeable_targets().empty())
    return fail(Errc::invalid_argument,
                "no other target would be left to take what {} holds: start another one first",
                change.ids.front());
  take_ownership(next, with_members(ownership_of(map), ownership_of(next).members));
  if (moves_names(map, change))
    next.rebalance = {false, next.version};
  else if (change.skip_rebalance && (change.action == Action::start_maintenance ||
                                     change.action == Action::stop_maintenance))
    next.rebalance = {true, 0};
  return next;
}

Smap with_rebalance_started(const Smap& map) {
  Smap next = with_next_version(map);
  next.rebalance = {false, next.version};
  return next;
}

Smap with_rebalance_stopped(const Smap& map) {
  if (map.past.empty() && map.rebalance.asked == 0) return map;
  Smap next = with_next_version(map);
  next.rebalance = {!map.past.empty(), 0};
  return next;
}

bool may_move_names(const Smap& map, const std::string& self, bool enabled) {
  const Node* node = map.find(self);
  if (node != nullptr && (node->flags & kGivenUp) != 0) return false;
  return !map.rebalance.held && (enabled || map.rebalance.asked != 0);
}

std::string rebalance_id(std::uint64_t map_version) { return "g" + std::to_string(map_version); }

Task<Result<Smap>> change_map(MetaStore& store, ClusterView& view, MapEdit edit) {
  for (Attempts attempts; co_await attempts.next();) {
    CO_TRY(const auto state, co_await view.fresh());
    RangeRequest key{std::string(keys::kMap), "", 0};
    CO_TRY(const auto found, co_await store.range(std::move(key)));
    CO_TRY(const Smap map, map_of(found));
    CO_TRY(Smap next, edit(map, state->live));
    if (next.version == map.version) co_return next;
    Transaction transaction;
    transaction.compare.push_back(
        {std::string(keys::kMap), Compare::What::mod_revision, found.items.front().mod_revision});
    transaction.puts.push_back({std::string(keys::kMap), json(next).dump(), 0});
    transaction.puts.push_back({std::string(keys::kMapVersion), std::to_string(next.version), 0});
    CO_TRY(const auto done, co_await store.commit(std::move(transaction)));
    if (!done.succeeded) continue;
    CO_TRY_OK(co_await view.fresh());
    co_return next;
  }
  co_return fail(Errc::unavailable, "the cluster map is being changed by others all the time");
}

}  // namespace tarn::cluster
