#pragma once

#include <atomic>
#include <chrono>

#include "common/base/async.h"
#include "common/http/router.h"
#include "proxy/admin/redundancy_board.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// Counts all buckets for its metrics while this proxy leads: one after the other, `interval` after
/// the last round. Targets rest three quarters of the time that it takes. A proxy that does not
/// lead shows none. Runs until it is cancelled; on any loop but the vital one. All arguments must
/// outlive it.
Task<void> keep_redundancy(const Services& services, RedundancyBoard& board,
                           const std::atomic<std::chrono::milliseconds>& interval);

/// The row of /metrics that takes the place of the one that all nodes have: their metrics, and
/// those of `board` while this proxy leads. Both arguments must outlive it.
[[nodiscard]] http::Route metrics_route(const Services& services, const RedundancyBoard& board);

}  // namespace tarn::proxy
