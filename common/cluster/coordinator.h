#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/cluster/hand_over.h"
#include "common/cluster/state.h"

namespace tarn::cluster {

/// When a target that is away counts as what.
struct AbsenceLimits {
  std::chrono::nanoseconds out_after = std::chrono::minutes(15);
  std::chrono::nanoseconds tombstone_keep = std::chrono::hours(24 * 7);
};

/// One change of the meta store: a transaction that must fail when the map is no longer of
/// `map_version`, `settled` no longer what it was, a node of `absent` has a lease, or one of
/// `present` has none.
struct CoordinatorStep {
  std::uint64_t map_version = 0;
  std::uint64_t settled_before = 0;
  std::optional<std::uint64_t> settle;
  std::optional<Ownership> publish;
  std::vector<std::string> absent;
  std::vector<std::string> present;
};

/// How long a target has had no lease, as far as who asks has seen.
using AbsentFor = std::function<std::chrono::nanoseconds(const std::string& id)>;

/// The next thing that the holder of the coordinator lease does, nothing when all is done: settles
/// the map version that all live targets have put in force; publishes who went down, came back, is
/// out, has other drives, is to be fenced, has left for good; forgets past sets whose members hold
/// nothing of others, and keeps them only for who is out when all others have given theirs. Pure.
/// Two coordinators at the same time do no harm, since each step is a compare-and-swap and `state`
/// is one consistent reading of the store, however old.
[[nodiscard]] std::optional<CoordinatorStep> next_step(const OwnershipState& state,
                                                       const AbsentFor& absent_for,
                                                       const AbsenceLimits& limits);

/// What a live proxy has in force, by its id.
using ProxyWords = std::map<std::string, std::uint64_t>;
/// Proxies that are decommissioned and may be taken out of the map: who is down, and who knows that
/// it is to leave, so that it acts upon it. Pure; whoever publishes compares the map, and that who
/// was down still is.
[[nodiscard]] std::vector<std::string> proxies_that_left(const Smap& map, const ProxyWords& live);

}  // namespace tarn::cluster
