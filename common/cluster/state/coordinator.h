#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/cluster/place/hand_over.h"
#include "common/cluster/state/state.h"

namespace tarn::cluster {

/// Times after which a node that is away counts as out.
struct AbsenceLimits {
  std::chrono::nanoseconds out_after = std::chrono::minutes(15);  ///< of a target
  std::chrono::nanoseconds proxy_out_after = std::chrono::minutes(15);
  std::chrono::nanoseconds tombstone_keep = std::chrono::hours(24 * 7);
};

/// One change of the meta store, as a transaction. It must fail when the map is no longer of
/// `map_version`, or `settled` is no longer what it was. It must also fail when a node of `absent`
/// has a lease, or one of `present` has none.
struct CoordinatorStep {
  std::uint64_t map_version = 0;
  std::uint64_t settled_before = 0;
  std::optional<std::uint64_t> settle;
  std::optional<Ownership> publish;
  std::vector<std::string> absent;
  std::vector<std::string> present;
};

/// Time that a node has had no lease, as far as the coordinator has seen.
using AbsentFor = std::function<std::chrono::nanoseconds(const std::string& id)>;

/// The next step of the holder of the coordinator lease, none when all is done: settles the map
/// version that all live targets have put in force; publishes nodes that went down, came back, are
/// out, have other drives, are to be fenced, or have left for good; forgets past epochs whose
/// members hold only their own names, and keeps them only for members that are out once the rest is
/// done. Pure. Two coordinators at the same time do no harm: each step is a compare-and-swap, and
/// `state` is one consistent reading of the store, however old.
[[nodiscard]] std::optional<CoordinatorStep> next_step(const OwnershipState& state,
                                                       const AbsentFor& absent_for,
                                                       const AbsenceLimits& limits);

/// Map versions that live proxies have in force, by id.
using ProxyVersions = std::map<std::string, std::uint64_t>;
/// Proxies that may be taken out of the map: decommissioned ones that are down, or know that they
/// are to leave and act upon it; and those that have been down for `limits.proxy_out_after`, unless
/// they are in maintenance. A proxy holds no data, and joins again when it is back. Pure; the
/// caller compares the map, and the leases of those that are down.
[[nodiscard]] std::vector<std::string> proxies_that_left(const Smap& map, const ProxyVersions& live,
                                                         const AbsentFor& absent_for,
                                                         const AbsenceLimits& limits);

}  // namespace tarn::cluster
