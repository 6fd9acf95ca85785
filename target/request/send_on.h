#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// Sends a client on to the target that owns the name, as a proxy would: signed, 302 for reads and
/// 307 for all else, nothing read of a body. unavailable when it has been sent on four times
/// already.
Task<Status> send_on(TargetNode& node, http::Request& request, const ObjectRequest& wanted);
/// We own the name, and its newest version still lies at `holder`: sends a reader there.
Task<Status> send_to_holder(TargetNode& node, http::Request& request, const ObjectRequest& wanted,
                            const cluster::Node& holder);
/// Another home of the name (docs/decisions/014), for a reader whom this one cannot serve; null:
/// there is none, or it has been at all of them.
[[nodiscard]] const cluster::Node* next_home(const TargetNode& node, const http::Request& request,
                                             const ObjectRequest& wanted);

/// In the query of such a URL: how often the client was sent on, and that the owner did it.
inline constexpr std::string_view kHops = "hops";
inline constexpr std::string_view kFromOwner = "from_owner";

}  // namespace tarn::target
