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
/// The first of these that reports within half a second that it serves readers; null: none does. A
/// lease is valid for seconds after its target has died, and a reader sent there would fail.
Task<const cluster::Node*> answering_replica(TargetNode& node, const http::Request& request,
                                             const ObjectRequest& wanted);

/// Path on the internal listener: 200 when readers may be sent to the target.
inline constexpr std::string_view kReadyPath = "/v1/internal/ready";

/// In the query of such a URL: how often the client was sent on, that the owner did it, and that
/// the first replica is slow.
inline constexpr std::string_view kHops = "hops";
inline constexpr std::string_view kFromOwner = "from_owner";
inline constexpr std::string_view kLeftSlow = "left_slow";

}  // namespace tarn::target
