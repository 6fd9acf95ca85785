#pragma once

#include <functional>
#include <vector>

#include "common/base/clock.h"
#include "common/cluster/cluster_view.h"
#include "common/cluster/membership.h"
#include "common/http/router.h"
#include "common/obs/metrics.h"

namespace tarn::cluster {

/// What the routes below need of a node. All of it outlives the listeners.
struct NodeContext {
  ClusterView& view;
  const Membership& membership;
  obs::Metrics& metrics;
  Clock& clock;
  BootTime started;
  /// Whether the node can do its work now; an error says in one line why it cannot. Thread-safe.
  std::function<Status()> ready;
};

/// AIStore's clients read "major.minor" and warn when the major version is not theirs.
inline constexpr std::string_view kAistoreVersion = "5.0.tarn-" TARN_VERSION;

/// What every node answers on its public listener: /healthz (200 while the loop turns), /readyz,
/// /metrics, /v1/health (readiness=, prr=, apr=, cii=) and
/// /v1/daemon?what=smap|bmd|snode|software_version (other selectors: 400 naming these). `context`
/// must outlive the routes.
[[nodiscard]] std::vector<http::Route> node_routes(const NodeContext& context);

}  // namespace tarn::cluster
