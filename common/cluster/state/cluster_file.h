#pragma once

#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/cluster/state/state.h"

namespace tarn::cluster {

/// `.tarn/cluster.json` of a drive: cluster map, bucket metadata and configuration as its target
/// saw them last, so that they can be brought back when the meta store is lost.
///
///   {"uuid":..,"revision":..,"map":{..},"bmd":{"version":..,"buckets":[..],"dead":[..]},
///    "config":{..}}
[[nodiscard]] std::string encode_cluster_file(const ClusterState& state);
/// Its uuid, revision, map, bucket metadata and configuration. corrupt when it cannot be read.
[[nodiscard]] Result<ClusterState> decode_cluster_file(std::string_view text);

/// Ok if a target whose drive has seen `seen` may work by `state`. Else conflict, with advice: the
/// store that `state` comes from lost data meanwhile.
Status check_not_older(const ClusterState& seen, const ClusterState& state);

}  // namespace tarn::cluster
