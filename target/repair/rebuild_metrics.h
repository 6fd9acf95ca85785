#pragma once

#include "common/obs/metrics.h"
#include "target/node/node.h"

namespace tarn::target {

/// Exports how far the target is with what it makes again, and why it does not get on: the gauges
/// and counters tarn_rebuild_* of docs/metrics.md. Both arguments must outlive the last scrape.
void export_rebuilds(obs::Metrics& metrics, const TargetNode& node);

}  // namespace tarn::target
