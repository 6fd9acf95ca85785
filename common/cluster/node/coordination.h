#pragma once

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/cluster/node/absences.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/state/cluster_view.h"
#include "common/cluster/state/coordinator.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

/// The proxy that takes the steps of next_step().
enum class Leader : std::uint8_t {
  this_proxy,  ///< the only one there is
  primary      ///< the holder of keys::kPrimary (keep_primary())
};

/// While this proxy leads: takes the coordinator's steps (docs/decisions/011), each one transaction
/// that compares all that it rests on. Times of absence are counted from when this proxy first saw
/// that a target has no lease, so a new leader begins anew. In the first term of its lead, a target
/// that it has not seen yet does not count as absent: leases may be on their way to be taken again.
/// Runs on one loop until it is cancelled; all arguments must outlive it. Puts these times into
/// `absences`.
Task<void> coordinate(MetaStore& store, ClusterView& view, const Membership& membership,
                      Clock& clock, Leader leader, AbsenceLimits limits, Absences& absences);

}  // namespace tarn::cluster
