#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/cluster/admin/node_report.h"
#include "common/obs/metrics.h"
#include "target/store/object_store.h"

namespace tarn::target {

/// Exports the metrics of every drive of `store` (docs/metrics.md), read at each scrape. All
/// arguments must outlive the last scrape.
void export_drives(obs::Metrics& metrics, const ObjectStore& store);

/// The drives as they are now, for AIStore's paths; then those that are missing, and `leaving`.
/// `labels` by path.
[[nodiscard]] std::vector<cluster::DriveReport> drive_reports(
    const ObjectStore& store, const SpaceLimits& limits, const std::set<std::string>& leaving,
    const std::map<std::string, std::string>& labels);

}  // namespace tarn::target
