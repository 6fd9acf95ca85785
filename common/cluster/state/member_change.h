#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/cluster/state/cluster_view.h"
#include "common/cluster/state/state.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

/// Request of an operator for some nodes: AIStore's actions and its message about nodes
/// (ActValRmNode).
struct MemberChange {
  enum class Action : std::uint8_t {
    start_maintenance,
    stop_maintenance,  ///< of one that is being decommissioned, too, as long as it is in the map
    decommission,
    shutdown,      ///< in maintenance, and its process ends when its names have moved
    remove_unsafe  ///< out of the map at once, with all that only it holds
  };
  Action action = Action::start_maintenance;
  std::vector<std::string> ids;  ///< each once
  bool skip_rebalance = false;   ///< no names are to move for this
  bool rm_user_data = false;
  bool no_shutdown = false;
};
/// AIStore's action; none if `verb` is no such action.
[[nodiscard]] std::optional<MemberChange::Action> member_action(std::string_view verb);
/// `value` of AIStore's message: "sid" and "sids" name nodes. keep_initial_config is taken and
/// changes nothing: Tarn's nodes have no configuration that came from a cluster. invalid_argument.
[[nodiscard]] Result<MemberChange> parse_member_change(MemberChange::Action action,
                                                       const nlohmann::json& value);

/// The map after `change`, all of it or nothing, one version higher. The coordinator and the nodes
/// themselves do the rest, by the flags. Errors: not_found for a node that the map does not have;
/// invalid_argument for the primary, the last target, and a state that holds already; conflict for
/// a target that is to send its names away and is down. `live`: nodes that have a lease.
[[nodiscard]] Result<Smap> with_member_change(const Smap& map, const std::set<std::string>& live,
                                              const MemberChange& change);
/// True if names move for it: then targets are among its nodes.
[[nodiscard]] bool moves_names(const Smap& map, const MemberChange& change);

/// The map one version higher in which every target looks through all it has and moves misplaced
/// names, whatever was ordered before.
[[nodiscard]] Smap with_rebalance_started(const Smap& map);
/// The map, one version higher, in which nothing moves until a rebalance is started, an operator
/// changes members, or a target joins. `map` itself when nothing is to be moved.
[[nodiscard]] Smap with_rebalance_stopped(const Smap& map);
/// True if target `self` may send away now all misplaced names. `enabled`: setting
/// rebalance.enabled, which counts without an operator's order.
[[nodiscard]] bool may_move_names(const Smap& map, const std::string& self, bool enabled);
/// AIStore's id of the rebalance by which names move to where this map has them.
[[nodiscard]] std::string rebalance_id(std::uint64_t map_version);

/// Publishes the map that `edit` makes, by compare-and-swap, and brings the view up to date.
/// Nothing is written when the version stays. `edit` may be asked several times; its errors are
/// passed on. Returns the map as it is then. unavailable when the store cannot be reached: then it
/// is not known whether it was done.
using MapEdit = std::function<Result<Smap>(const Smap&, const std::set<std::string>& live)>;
Task<Result<Smap>> change_map(MetaStore& store, ClusterView& view, MapEdit edit);

}  // namespace tarn::cluster
