#include "proxy/core/targets.h"

namespace tarn::proxy {

Result<std::vector<const cluster::Node*>> targets_that_may_hold(
    const cluster::ClusterState& state) {
  std::vector<const cluster::Node*> out;
  for (const std::string& id : cluster::may_hold_any(cluster::ownership_of(state.map)))
    if (const cluster::Node* node = state.map.find(id)) out.push_back(node);
  if (out.empty()) return fail(Errc::unavailable, "no storage target has joined the cluster");
  return out;
}

}  // namespace tarn::proxy
