#pragma once

#include "common/cluster/state/state.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// True if this proxy does, by `state`, the work that one proxy of the cluster does for all: it
/// holds a lease, and the key of the primary. At times no proxy leads; two never for longer than a
/// proxy takes to learn of it.
[[nodiscard]] inline bool leads(const Services& services, const cluster::ClusterState& state) {
  if (!services.membership.lease().valid()) return false;
  // With the embedded store there is one proxy, and no lead to be taken.
  return services.options.etcd.endpoints.empty() || state.primary == services.node_id();
}

}  // namespace tarn::proxy
