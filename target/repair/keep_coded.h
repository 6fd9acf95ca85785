#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// Keeps all slices of the coded objects that this target owns where they belong, and drops slices
/// here that are not needed. Looks at the start, when the map has changed and is settled, when work
/// was left, when asked for, and once a day. RebuildWatch shows what each look finds and does. Runs
/// until it is cancelled.
Task<void> keep_coded(TargetNode& node);

/// GET /v1/internal/rebuild: RebuildWatch::report(), with "incarnation", that of this start.
Task<Status> tell_rebuild(TargetNode& node, http::Request& request);
/// POST [?unless=stopped]: has it look through everything once more, soon. The answer is
/// {"look":N,"incarnation":I}: the number of that look, or of the last one when a stop stays.
Task<Status> start_rebuild(TargetNode& node, http::Request& request);
/// DELETE: ends what is under way, and begins nothing before more is lost (heed_losses.h) or
/// start_rebuild() is called.
Task<Status> stop_rebuild(TargetNode& node, http::Request& request);

}  // namespace tarn::target
