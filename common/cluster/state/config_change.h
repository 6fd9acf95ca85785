#pragma once

#include <functional>

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/cluster/state/cluster_view.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

/// Sets the configuration that `change` makes of the cluster's present one, by compare-and-swap,
/// and brings the view up to date. Nothing is written when nothing changes. `change` may be asked
/// several times; its errors are passed on. Returns the configuration as it is then. Errors:
/// unavailable.
using ConfigEdit = std::function<Result<ConfigValues>(const ConfigValues&)>;
Task<Result<ClusterConfig>> change_config(MetaStore& store, ClusterView& view, ConfigEdit change,
                                          Clock& clock);

}  // namespace tarn::cluster
