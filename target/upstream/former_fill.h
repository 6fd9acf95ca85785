#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "target/replica/newest.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

// A fill goes on at a former owner of its name when the name has got a new one, for the readers
// that it has. What it stored would not be kept; so the new owner fetches from there what upstream
// has been asked for already (docs/decisions/021, "Hand-over").

/// The path of a fill's bytes, ?bucket=ID&object=NAME: 404 when none is under way.
inline constexpr const char* kFillPath = "/v1/internal/upstream/fill";
/// The field of that answer that has the object as upstream described it.
inline constexpr const char* kFillObject = "Tarn-Upstream-Object";

/// JSON of an object, all ASCII; and back. corrupt for a text that is none.
[[nodiscard]] std::string to_text(const UpstreamObject& object);
[[nodiscard]] Result<UpstreamObject> upstream_object_in(std::string_view text);

/// The fill that a former owner of the name has under way, as an answer that begins at byte 0; it
/// breaks off when that fill does, or when its target dies. Nothing when there is none, or when a
/// later owner has written the name. `newest`: what the cluster has of it. `silence`: for which
/// upstream may send nothing; a former owner a little longer, since it says then what upstream did.
Task<std::optional<Upstream::Download>> fill_of_former_owner(TargetNode& node, ObjectName name,
                                                             const Newest& newest,
                                                             std::chrono::milliseconds silence);

}  // namespace tarn::target
