#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/cluster/state/state.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

/// The end of a whole cluster. Flags of its nodes in the map record that an operator wants it, so
/// every node learns of it. Each proxy that comes to lead goes on with it:
///
///   the order is in the map -> all buckets are destroyed, when user data is to go
///   -> each target ends: drives closed (and emptied), its note /tarn/ended/<id> written
///   -> the other proxies end -> all keys of the cluster are removed, the last proxy ends.
///
/// Flags beside those of ownership.h: they keep no target from owning names.
enum : std::uint64_t {
  kEnds = 1U << 21U,        ///< ends with the cluster; without it in such a map: left out
  kEndsErased = 1U << 22U,  ///< and a target empties its drives then
};

/// True if the cluster of this map ends.
[[nodiscard]] bool is_ending(const Smap& map);
/// True if users' data is to be erased with it.
[[nodiscard]] bool ends_erased(const Smap& map);

/// The map, one version higher, of a cluster that is to end; `map` itself if it ends already.
/// `ended`: targets that have written their note. A node that is not up is left out with `force`,
/// else conflict, naming it. Proxies that are down because the cluster ends do not count. conflict
/// also when it ends already with another `erase`.
[[nodiscard]] Result<Smap> with_cluster_end(const Smap& map, const std::set<std::string>& live,
                                            const std::set<std::string>& ended, bool erase,
                                            bool force);
/// The map of an ending cluster in which all nodes that are up end with it: some may have come
/// back, or joined. `map` itself when it is so.
[[nodiscard]] Smap with_all_that_live(const Smap& map, const std::set<std::string>& live);
/// Nodes that an ending cluster does not wait for.
[[nodiscard]] std::vector<std::string> left_out(const Smap& map);
/// Targets that have not ended yet and are waited for.
[[nodiscard]] std::vector<std::string> waited_for(const Smap& map,
                                                  const std::set<std::string>& ended);
/// True if target `id` is to end now: where user data is erased, buckets go first.
[[nodiscard]] bool target_is_to_end(const ClusterState& state, const std::string& id);

/// The targets that have ended with the cluster.
Task<Result<std::set<std::string>>> read_ended(MetaStore& store);
/// Writes the note of target `id`: its last act.
Task<Status> note_ended(MetaStore& store, std::string id);
/// Removes all keys of cluster `uuid`, its jobs' as well. Nothing is done when it is gone. conflict
/// when another cluster is there.
Task<Status> remove_cluster(MetaStore& store, std::string uuid);

}  // namespace tarn::cluster
