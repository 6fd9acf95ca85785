#pragma once

#include <vector>

#include "common/http/router.h"
#include "common/obs/metrics.h"
#include "target/upstream/cold_reads.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

struct TargetNode;

/// Requests of proxies for upstream, on the internal listener; targets alone have the credentials.
///
///   POST /v1/internal/upstream/check  {"bucket": .., "props": ..}: 200 when the bucket is there,
///                                     with the properties that name the server that was asked.
///                                     "configured": 404 unless this target was started with a
///                                     server or credentials for it
///   GET  /v1/internal/upstream/buckets  ?provider=aws: all buckets of the account that this target
///                                     was started with, as a JSON array of Bck; 404 where it was
///                                     started with none. Without provider of all its accounts
///   GET  /v1/internal/upstream/list   the query of /v1/internal/list: a page of upstream's names
///   GET  /v1/internal/upstream/fill   for another target: former_fill.h
[[nodiscard]] std::vector<http::Route> upstream_routes(TargetNode& node, Upstream& upstream,
                                                       ColdReads& reads);

/// The metrics tarn_upstream_* (docs/metrics.md). All must outlive `metrics`.
void export_upstream(obs::Metrics& metrics, Upstream& upstream, ColdReads& reads);

}  // namespace tarn::target
