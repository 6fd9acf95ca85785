#include "target/node/known_losses.h"

#include <algorithm>

#include "common/cluster/place/slice_plan.h"

namespace tarn::target {

bool KnownLosses::more_than(const KnownLosses& before) const {
  if (!std::includes(standing.begin(), standing.end(), before.standing.begin(),
                     before.standing.end()))
    return true;
  return std::any_of(lost_drives.begin(), lost_drives.end(), [&](const auto& status) {
    const auto said = before.lost_drives.find(status.first);
    return status.second != 0 &&
           (said == before.lost_drives.end() || said->second != status.second);
  });
}

void KnownLosses::keep_words_of(const KnownLosses& before) {
  lost_drives.insert(before.lost_drives.begin(), before.lost_drives.end());
}

KnownLosses known_losses(const cluster::OwnershipState& state) {
  KnownLosses out;
  const cluster::NodeSet standing = cluster::standing_members(*state.map);
  for (std::size_t i = 0; i < standing.size(); ++i) out.standing.insert(standing.id(i));
  for (const cluster::TargetStatus& status : state.live)
    out.lost_drives[status.id] = status.lost_drives;
  return out;
}

}  // namespace tarn::target
