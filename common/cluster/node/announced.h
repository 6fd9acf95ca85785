#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/cluster/state/state.h"

namespace tarn::cluster {

/// A peer on another machine, and the address from which this machine reaches it: the one by which
/// other nodes reach this machine.
struct RemotePeer {
  std::string url;          ///< empty: all peers are on this machine
  std::string own_address;  ///< empty: likewise
};
/// Finds the first of `peers` (URLs of the meta store, or of the proxy to join) on another machine.
/// Blocks for name lookups. Sends no packet to the peers.
[[nodiscard]] RemotePeer find_remote_peer(const std::vector<std::string>& peers);

/// Checks the URLs that a node is about to announce. Errors: invalid_argument for a URL that cannot
/// be called (no http, no address of one machine). Logs a warning for a loopback address if there
/// is a remote peer.
Status check_announced(const Node& node, const RemotePeer& remote);

}  // namespace tarn::cluster
