#pragma once

#include <functional>
#include <vector>

#include "common/base/clock.h"
#include "common/cluster/admin/node_report.h"
#include "common/cluster/admin/node_stats.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/node/node_config.h"
#include "common/cluster/state/cluster_view.h"
#include "common/http/router.h"
#include "common/obs/metrics.h"

namespace tarn::cluster {

/// Parts of a node that the routes below need. All of them outlive the listeners.
struct NodeContext {
  ClusterView& view;
  Membership& membership;
  obs::Metrics& metrics;
  Clock& clock;
  BootTime started;
  /// Ok if the node can do its work now; else an error with the reason in one line. Thread-safe.
  std::function<Status()> ready;
  NodeStats& stats;
  /// The drives as they are now; null for nodes that have none. Thread-safe, does not wait.
  std::function<std::vector<DriveReport>()> drives;
  /// Settings that can change while the node runs.
  NodeConfig& config;
  /// Drops all that the node keeps open or in memory so that the next reader finds it sooner; null
  /// for nodes that keep nothing. Thread-safe.
  std::function<void()> clear_cache = nullptr;

  [[nodiscard]] std::vector<DriveReport> drive_reports() const {
    return drives ? drives() : std::vector<DriveReport>();
  }
};

/// Routes that every node serves on its public listener: /healthz (200 while the loop turns),
/// /readyz, /metrics, /v1/health (readiness=, prr=, apr=, cii=), /v1/daemon?what=
/// (common/cluster/admin/daemon.h) and actions on the node (common/cluster/admin/node_actions.h).
/// `context` must outlive the routes.
[[nodiscard]] std::vector<http::Route> node_routes(const NodeContext& context);

}  // namespace tarn::cluster
