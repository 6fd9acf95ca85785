#pragma once

#include <functional>

#include "common/base/async.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/state/cluster_view.h"

namespace tarn::cluster {

/// Obeys the flags in the map by which an operator wants this node gone (ownership.h). In
/// maintenance, with kStops: it ends its process when it is no longer needed. A target ends its
/// process with its cluster (cluster_end.h). Dismissed: with kErases it calls `erase` (null: no
/// data to erase) until that succeeds, then with kStops it ends its process. Runs until it is
/// cancelled; the arguments must outlive it.
Task<void> obey_dismissal(const ClusterView& view, const Membership& membership,
                          std::function<Task<Status>()> erase);

}  // namespace tarn::cluster
