#pragma once

#include <memory>

#include "common/cluster/store/meta_store.h"
#include "common/obs/metrics.h"

namespace tarn::cluster {

/// `store`, with the outcome of its calls in `metrics` (docs/metrics.md: tarn_meta_*), so that an
/// operator learns of a meta store that is slow, away or refuses writes before clients do. Watches
/// are not counted: they last as long as they may. Thread-safe; `metrics` must outlive it.
[[nodiscard]] std::unique_ptr<MetaStore> metered(std::unique_ptr<MetaStore> store,
                                                 obs::Metrics& metrics);

}  // namespace tarn::cluster
