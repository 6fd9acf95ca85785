#pragma once

#include <string>

#include "target/node.h"

namespace tarn::target {

/// A request to another node's internal listener, signed as this node; `target`: its path and
/// query. Any thread.
[[nodiscard]] http::ClientRequest signed_call(const TargetNode& node, http::Method method,
                                              std::string target);

}  // namespace tarn::target
