#pragma once

#include "common/obs/metrics.h"
#include "target/object_store.h"

namespace tarn::target {

/// What /metrics says of every drive of `store` (docs/api.md), read at each scrape. The store must
/// outlive the last scrape.
void export_drives(obs::Metrics& metrics, const ObjectStore& store);

}  // namespace tarn::target
