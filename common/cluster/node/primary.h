#pragma once

#include <string>

#include "common/base/async.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/state/cluster_view.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

/// Among proxies over one store: tries to hold the key of the primary (keys::kPrimary) under this
/// node's lease, and names itself in the cluster map while it does. No decision depends on its
/// holder: it is the proxy that AIStore's clients see as primary. When its holder ends, another one
/// takes it within a look (0.2 s) of the end of the lease. Runs on one loop until it is cancelled;
/// all arguments must outlive it.
Task<void> keep_primary(MetaStore& store, ClusterView& view, const Membership& membership);

/// Moves the key of the primary to proxy `id`, under that proxy's lease, and names it in the map:
/// one transaction. Nothing is done when it is the primary. Errors: unavailable when it is not up,
/// or other nodes change the map all the time.
Task<Status> set_primary(MetaStore& store, ClusterView& view, std::string id);

}  // namespace tarn::cluster
