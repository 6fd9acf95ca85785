#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "target/node/node.h"

namespace tarn::target {

/// A request to another node's internal listener, signed as this node; `target`: its path and
/// query. Any thread.
[[nodiscard]] http::ClientRequest signed_call(const TargetNode& node, http::Method method,
                                              std::string target);

/// One whole call to another target's internal listener. unavailable when it is not in the map,
/// disconnected when it did not answer; else what it answered, errors as well.
Task<Result<http::ClientResponse>> ask_target(TargetNode& node, std::string id,
                                              http::ClientRequest request, http::CallLimits limits);
/// Error of an answer that is not 200, as that target reported it.
[[nodiscard]] Error error_of_answer(const std::string& id, unsigned status, std::string_view body);

/// Limits of a call in which the other target may send nothing while it takes `size` bytes. It
/// syncs what it got before it answers, to a drive that other work may keep busy. Never longer than
/// the relay waits for a copy.
[[nodiscard]] http::CallLimits transfer_limits(std::uint64_t size);
/// The body of an answer after its head, as far as it comes, at most `bytes_max` of it.
Task<std::string> read_text(http::ClientStream& stream, std::size_t bytes_max);

}  // namespace tarn::target
