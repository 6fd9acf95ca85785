#pragma once

#include <cstdint>

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

/// Whether clients are served here, and somebody waits for his turn of a drive.
[[nodiscard]] bool clients_wait(const TargetNode& node);

/// At the home of a piece: returns when so many bytes may be read for a repair (rebuild_wait()), or
/// after a second, since another target may make it, which has its own patience.
Task<Status> pass_read(TargetNode& node, std::uint64_t bytes);

}  // namespace tarn::target
