#pragma once

#include <cstdint>

#include "target/node/move_pace.h"
#include "target/node/node.h"

namespace tarn::target {

/// A client is being served as long as this lives: rebuilds make room for it.
class ServingClient {
 public:
  explicit ServingClient(TargetNode& node) : node_(node) { ++node_.clients; }
  ~ServingClient() { --node_.clients; }
  ServingClient(const ServingClient&) = delete;
  ServingClient& operator=(const ServingClient&) = delete;

 private:
  TargetNode& node_;
};

/// The limits, with the floor of the drives that are in service now.
[[nodiscard]] MoveLimits& rebuild_limits(TargetNode& node);

/// rebuild_wait() by these limits. Clients go first while one of them waits for a turn of `drive`;
/// null: of any drive here. Turns of TurnFor::background hold up none.
[[nodiscard]] RebuildWait rebuild_wait(TargetNode& node, std::uint64_t bytes,
                                       const Drive* drive = nullptr);

/// At the holder of a slice, on `drive` (null: on any): returns when so many bytes may be read for
/// a repair (rebuild_wait()), or after a second. Another target may make the slice, and it has its
/// own time limit.
Task<Status> pass_read(TargetNode& node, const Drive* drive, std::uint64_t bytes);

}  // namespace tarn::target
