#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "target/replica/newest.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

// A fill goes on at a former owner of its name when the name has got a new one, for the readers
// that it has. A copy that it stored would not be kept; so the new owner fetches from there what
// upstream has been asked for already (docs/decisions/021, "Hand-over").

/// The path of a fill's bytes, ?bucket=ID&object=NAME&known=GENERATION: 404 when none is under way
/// that upstream has answered, or when another generation than `known` (empty: none) was known of
/// the name when it began.
inline constexpr const char* kFillPath = "/v1/internal/upstream/fill";
/// The field of that answer that has the object as upstream described it.
inline constexpr const char* kFillObject = "Tarn-Upstream-Object";

/// JSON of an object, all ASCII; empty for one whose texts are no UTF-8. And back: corrupt for a
/// text that is none.
[[nodiscard]] std::string to_text(const UpstreamObject& object);
[[nodiscard]] Result<UpstreamObject> upstream_object_in(std::string_view text);

/// The fill that a former owner of the name has under way, as an answer that begins at byte 0; it
/// breaks off when that fill does, or when its target dies. `newest`: what the cluster has of the
/// name, as when that fill began: else it may be of the version before a write. Nothing when there
/// is none, or when no answer comes in a second or two. `silence`: for which upstream may send
/// nothing, and the former owner a little longer.
Task<std::optional<Upstream::Download>> fill_of_former_owner(TargetNode& node, ObjectName name,
                                                             const Newest& newest,
                                                             std::chrono::milliseconds silence);

}  // namespace tarn::target
