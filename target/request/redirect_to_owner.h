#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// Sends a client on to the target that owns the name, as a proxy would: signed, 302 for reads and
/// 307 for all else, nothing read of a body. unavailable when it has been sent on four times
/// already.
Task<Status> redirect_to_owner(TargetNode& node, http::Request& request,
                               const ObjectRequest& wanted);
/// We own the name, and its newest version still lies at `holder`: sends a reader there.
Task<Status> redirect_to_holder(TargetNode& node, http::Request& request,
                                const ObjectRequest& wanted, const cluster::Node& holder);
/// Sends a reader to another replica because this one is slow. The reader comes back when no other
/// replica can serve it.
Task<Status> send_to_faster(TargetNode& node, http::Request& request, const ObjectRequest& wanted,
                            const cluster::Node& other);
/// Another replica of the name (docs/decisions/014), for a reader whom this one cannot serve; null:
/// there is none, or it has been at all of them. The first one counts once more if it was left
/// because it is slow.
[[nodiscard]] const cluster::Node* next_replica(const TargetNode& node,
                                                const http::Request& request,
                                                const ObjectRequest& wanted);

/// In the query of such a URL: how often the client was sent on, that the owner did it, and that
/// the first replica is slow.
inline constexpr std::string_view kHops = "hops";
inline constexpr std::string_view kFromOwner = "from_owner";
inline constexpr std::string_view kLeftSlow = "left_slow";

}  // namespace tarn::target
