#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket.h"
#include "common/base/ids.h"
#include "common/cluster/state/state.h"

namespace tarn::proxy {

// Rules of a safe stop: judgement of the cluster map. Pure.

/// Answer to "may these nodes stop?". A reason is a fact that waiting, or stopping fewer nodes, may
/// change. A note is a loss of access that no waiting prevents.
struct StopAnswer {
  std::set<std::string> nodes;       ///< ids that were asked about
  std::vector<std::string> reasons;  ///< lines without a full stop
  std::vector<std::string> notes;    ///< likewise

  [[nodiscard]] bool safe() const { return reasons.empty(); }
};
/// {"safe":B,"nodes":[..],"reasons":[..],"notes":[..]}.
void to_json(nlohmann::json& out, const StopAnswer& answer);

/// Nodes that are to stop, and one proxy's knowledge of the rest.
struct StopCase {
  const cluster::ClusterState& state;
  std::set<std::string> stops;   ///< ids, all of them in the map
  std::set<std::string> silent;  ///< ids of targets that do not answer this proxy
};

/// Buckets whose objects have to be counted before the answer is known.
struct StopCounts {
  std::vector<BucketId> redundant;  ///< with copies or slices on other targets
  std::vector<BucketId> single;     ///< with each object on one target
};

/// Fills in all that follows from the map alone, and returns the buckets to be counted. They are
/// empty if no target stops.
StopCounts judge_map(const StopCase& stop, StopAnswer& answer);

/// Ids of targets that the map has, that are not to stop and are not up: down, or silent.
[[nodiscard]] std::vector<std::string> other_targets_away(const StopCase& stop);

/// Adds the reason that `objects` of a bucket, `first` among them, would be unreadable.
void add_unreadable(const StopCase& stop, const api::Bucket& bucket, std::uint64_t objects,
                    const std::string& first, StopAnswer& answer);
/// Adds the note that `objects` of a bucket lie on one target each.
void add_single(const api::Bucket& bucket, std::uint64_t objects, StopAnswer& answer);

}  // namespace tarn::proxy
