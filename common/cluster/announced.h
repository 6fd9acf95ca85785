#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/cluster/state.h"

namespace tarn::cluster {

/// The address by which other machines reach this one: the source address of a route to the first
/// of `peers` (URLs of the meta store, or of the proxy to join) on another machine. Empty when
/// there is none. Blocks for name lookups. Sends no packet to the peers.
[[nodiscard]] std::string own_address(const std::vector<std::string>& peers);

/// Checks the URLs that a node is about to announce. Errors: invalid_argument for a URL that cannot
/// be called (no http, no address of one machine). Logs a warning for a loopback address while a
/// peer is on another machine. Blocks, as own_address().
Status check_announced(const Node& node, const std::vector<std::string>& peers);

}  // namespace tarn::cluster
