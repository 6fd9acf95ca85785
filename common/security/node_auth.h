#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/error.h"

namespace tarn::security {

/// Proof that a call on the internal listener comes from a node of this cluster: header
/// `Tarn-Node-Auth: <node id> <unix ms> <nonce> <hmac>`, the HMAC-SHA256 of node id, time, nonce,
/// method and request target under a key derived from the cluster secret. Clocks may differ by
/// kSkewMax. The body is not covered, and a call can be repeated within that time by an attacker
/// who can read the network between the nodes: it must be one that is trusted, or encrypted.
class NodeAuth {
 public:
  NodeAuth(std::string key, std::string node_id, Clock& clock)
      : key_(std::move(key)), node_id_(std::move(node_id)), clock_(clock) {}
  static constexpr std::string_view kHeader = "Tarn-Node-Auth";
  static constexpr std::chrono::minutes kSkewMax{5};

  [[nodiscard]] std::string sign(std::string_view method, std::string_view target) const;
  /// The caller's node id. unauthenticated when the header is missing or not ours.
  [[nodiscard]] Result<std::string> verify(std::string_view header, std::string_view method,
                                           std::string_view target) const;

  /// The node id that a header names: the caller's once verify() has taken the header.
  [[nodiscard]] static std::string_view node_of(std::string_view header) {
    return header.substr(0, header.find(' '));
  }

 private:
  std::string key_;
  std::string node_id_;
  Clock& clock_;
};

}  // namespace tarn::security
