#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/cluster/state/state.h"
#include "common/cluster/store/meta_store.h"

// Move of the state of a cluster to another meta store (docs/decisions/010). The new store begins
// at revision 1; since revisions are part of every object's generation, it gets a base that is
// added to them.
namespace tarn::cluster {

/// Summary of the keys that came to the new store.
struct Moved {
  std::string uuid;
  std::size_t keys = 0;
  std::size_t buckets = 0;
  Revision base = 0;
};

/// Copies the state of a cluster to a store that has none, compares, and marks the old store as
/// left for `where`: from then on no proxy starts with it. The old store must have no other users
/// now. Can be called again when it was interrupted. Errors: not_found (there is no cluster),
/// conflict (the new store has one, or the old one was left for another place), unavailable.
Task<Result<Moved>> move_metadata(MetaStore& from, MetaStore& to, std::string where,
                                  std::string secret_check);

/// Jump of versions and revisions when a store is made anew from the drives: the part that was lost
/// with the old one, and stands on no drive, was less.
inline constexpr std::uint64_t kVersionJump = 1'000'000;
inline constexpr Revision kRevisionJump = Revision{1} << 40;

/// The newest state that drives have seen; map, buckets and dead buckets of one moment. conflict
/// when they are of different clusters, invalid_argument when there are none.
[[nodiscard]] Result<ClusterState> newest_of(const std::vector<ClusterState>& seen);
/// State with which the cluster goes on: targets and buckets of `seen`, versions and revisions
/// beyond all that may have been. Proxies come back by themselves. A cluster that was ended lives
/// again.
[[nodiscard]] ClusterState recovered(ClusterState seen);
/// Writes `state` (of recovered()) into a store that has no cluster. Errors: conflict (it has one),
/// unavailable.
Task<Result<Moved>> restore_metadata(ClusterState state, MetaStore& to, std::string secret_check);

}  // namespace tarn::cluster
