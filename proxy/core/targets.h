#pragma once

#include <vector>

#include "common/base/error.h"
#include "common/cluster/state/state.h"

namespace tarn::proxy {

/// Returns the targets that may hold any object, as nodes within `state`. unavailable when there
/// are none. Pure.
[[nodiscard]] Result<std::vector<const cluster::Node*>> targets_that_may_hold(
    const cluster::ClusterState& state);

}  // namespace tarn::proxy
