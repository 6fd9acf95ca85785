#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/cluster/state.h"

namespace tarn::cluster {

/// The address by which other machines find this one: that from which it reaches the first of
/// `peers` (URLs of the meta store, or of the proxy to join) that is on another machine. Empty when
/// none is. Looks names up, so it blocks; nothing is sent to the peers.
[[nodiscard]] std::string own_address(const std::vector<std::string>& peers);

/// Looks at what a node is about to tell others of itself. invalid_argument for a URL that nobody
/// can call (no http, no address of one machine); a warning in the log for one that only this
/// machine can call while a peer is on another. Blocks, as own_address().
Status check_announced(const Node& node, const std::vector<std::string>& peers);

}  // namespace tarn::cluster
