#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/base/session.h"

namespace tarn::cli {

/// A node of the cluster map, and its report about itself.
struct NodeHealth {
  enum class State : std::uint8_t { up, not_ready, down };
  std::string id;
  std::string role;  ///< "proxy" or "target"
  std::string url;
  State state = State::down;
  std::string zone;               ///< of a target that has one
  std::string aside;              ///< "maintenance", "leaving", or empty
  std::string reason;             ///< reason if it is not up
  std::uint64_t map_version = 0;  ///< its newest version; 0 when it does not answer
};
[[nodiscard]] std::string_view to_string(NodeHealth::State state);

struct ClusterHealth {
  std::string uuid;
  std::string primary;
  std::uint64_t map_version = 0;  ///< the newest that any node holds
  std::vector<NodeHealth> nodes;
  std::uint64_t past_epochs = 0;  ///< of targets with perhaps misplaced names; 0: all is in place
  bool held = false;              ///< no object moves, by an operator's order

  /// Empty when every node is up and holds the newest map, and all names are in place; else the
  /// faults, with reasons. Nodes in maintenance may be down.
  [[nodiscard]] std::string complaint() const;
};

/// Asks the endpoint for the map, and every node in it for itself: a node that does not answer
/// within `limit` is down.
Task<Result<ClusterHealth>> cluster_health(Session& session, std::chrono::milliseconds limit);

}  // namespace tarn::cli
