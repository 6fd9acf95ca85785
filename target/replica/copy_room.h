#pragma once

#include <string>
#include <vector>

#include "target/node/node.h"

namespace tarn::target {

// Checks, as far as can be, that all replicas can take a version, before one of them has stored it:
// a stored version does not go back (docs/decisions/014).

/// no_space, naming the first, when one of `replicas` has neither room for `size` more bytes nor
/// this version, or a newer one; unavailable when its drive does not keep up. Replicas that do not
/// answer do not count: the write finds out. A replica answers by what it knew of its drives within
/// the last second.
Task<Status> check_room(TargetNode& node, const ObjectName& name, Generation generation,
                        std::uint64_t size, std::vector<std::string> replicas);

/// unavailable when the drive of replica `id` where the name belongs hangs and is out: it does not
/// answer what it has in hand. A replica that does not answer does not count.
Task<Status> check_answers(TargetNode& node, const ObjectName& name, std::string id);
/// 200, or 507 or 503, for that. Internal listener.
Task<Status> tell_room(TargetNode& node, http::Request& request);

/// unavailable while the drive where the name belongs hangs, or lags by more than two seconds: a
/// copy from the owner does not wait for it.
[[nodiscard]] Status keeps_up(const TargetNode& node, const ObjectName& name);
/// Answer of a replica for that: a 503 with a field of its own, since soon it will not be
/// otherwise.
[[nodiscard]] http::Response drive_lags(const Error& why);
[[nodiscard]] bool says_drive_lags(const http::ClientResponse& answer);

inline constexpr const char* kRoomPath = "/v1/internal/copies/room";

}  // namespace tarn::target
