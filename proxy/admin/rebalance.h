#pragma once

#include <nlohmann/json_fwd.hpp>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/action.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// True if the "value" of start or stop is about rebalance: by its kind, or by an id such as "g7".
[[nodiscard]] Result<bool> is_about_rebalance(const nlohmann::json& value);
/// start: every target looks through all it has and moves all misplaced names; the answer is its
/// id. stop: no name moves, within a second, until it is started, an operator changes members, or a
/// target joins.
Task<Status> act_on_rebalance(const Services& services, http::Request& request, Action action);

/// GET /v1/cluster?what=rebalance, Tarn's own: {"map":..,"settled":..,"held":..,"past":..,
/// "targets":{"ID":MoveReport or {"error":".."}}}. `past`: sets of targets that may hold names that
/// are not their own; 0: all is in place.
Task<Result<http::Response>> tell_rebalance(const Services& services);

}  // namespace tarn::proxy
