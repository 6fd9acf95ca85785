#pragma once

#include "common/base/async.h"
#include "common/http/message.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// GET /v1/cluster?what=rebuild_plan, Tarn's own: {"complete","targets":{"ID":{"loss":{..},
/// "drives":{"PATH":{..}}} or {"error":".."}}}: the cost of the loss of each target, and of each of
/// its drives (api::Loss), as long as no other one is missing. Counted by the targets in their
/// indexes, now.
Task<Result<http::Response>> tell_rebuild_plan(const Services& services);

}  // namespace tarn::proxy
