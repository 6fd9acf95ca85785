#pragma once

#include <functional>

#include "common/base/async.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/state/cluster_view.h"

namespace tarn::cluster {

/// What a node does by itself when its flags in the map say that an operator wants it gone
/// (ownership.h). In maintenance, with kStops: it ends its process when nobody needs it any more.
/// A target ends its process with its cluster (cluster_end.h).
/// Dismissed: with kErases it calls `erase` (null: there is nothing) until that succeeds, then with
/// kStops it ends its process. Runs until it is cancelled; the arguments must outlive it.
Task<void> obey_dismissal(const ClusterView& view, const Membership& membership,
                          std::function<Task<Status>()> erase);

}  // namespace tarn::cluster
