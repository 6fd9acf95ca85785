#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "target/node/node.h"

namespace tarn::target {

// Names with copies on nodes that live on a drive which is away: missing, or out
// (docs/decisions/014). Other targets have what lies there, so other drives of this one take
// new versions. For all other names these functions are the ObjectStore's.

/// The drives that take new files, in the order in which placement prefers them for the name.
[[nodiscard]] std::vector<std::shared_ptr<Drive>> drives_for(const ObjectStore& store,
                                                             const ObjectName& name);
/// True if the drives in service surely show the newest version of a name that this target has:
/// its place is in service, and no drive is away on which it may be misplaced. If false, another
/// replica is asked. Always true in buckets that never had copies on nodes.
[[nodiscard]] bool has_full_view(const TargetNode& node, const ObjectName& name);
/// ObjectStore::find_all(), or where not all is seen, what is.
Task<Result<std::vector<Located>>> find_here(TargetNode& node, ObjectName name);
/// ObjectStore::reachable(), but a drive that is away does not count when another takes files.
[[nodiscard]] Status takes_writes(const TargetNode& node, const ObjectName& name);
/// ObjectStore::create(), or on another drive than the one that is away. The drive that is away is
/// durably stale from then on (Mirror): back again, it is not believed while another drive is away.
Task<Result<std::unique_ptr<WorkFile>>> create_here(TargetNode& node, ObjectName name,
                                                    std::optional<std::uint64_t> length);
/// ObjectStore::remove(); of a name of which nothing is seen, the tombstone goes to another drive,
/// as a file of create_here() does. Under the name's lock.
Task<Status> remove_here(TargetNode& node, ObjectName name, std::vector<Located> present,
                         io::ObjectRecord tombstone);

/// Removes overtaken versions from stale drives that are back. False: something could not be
/// judged; until it is they stay stale.
Task<bool> drop_overtaken(TargetNode& node);

}  // namespace tarn::target
