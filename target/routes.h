#pragma once

#include <vector>

#include "target/node/node.h"

namespace tarn::target {

/// The route tables of the two listeners.
[[nodiscard]] std::vector<http::Route> public_routes(TargetNode& node);
[[nodiscard]] std::vector<http::Route> internal_routes(TargetNode& node);

}  // namespace tarn::target
