#pragma once

#include <vector>

#include "common/http/router.h"
#include "common/obs/metrics.h"
#include "target/upstream/download_object.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

struct TargetNode;

/// The part of a target in downloads, on the internal listener (docs/upstream.md). All must outlive
/// the routes.
///
///   POST   /v1/internal/download        fetches a batch (DownloadBatch); a line on progress
///   DELETE /v1/internal/download?job=   stops that
///   POST   /v1/internal/download/check  {"links": [..]}: 200 when all of their servers may be
///   asked
[[nodiscard]] std::vector<http::Route> download_routes(TargetNode& node, Upstream& upstream,
                                                       DownloadCounts& counts);

/// The metrics tarn_download_* (docs/metrics.md). `counts` must outlive `metrics`.
void export_downloads(obs::Metrics& metrics, DownloadCounts& counts);

}  // namespace tarn::target
