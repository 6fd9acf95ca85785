#pragma once

#include "common/api/action.h"
#include "common/base/async.h"
#include "common/http/exchange.h"

namespace tarn::proxy {

using api::Action;
using api::parse_action;

/// Reads the body, of at most Action::kBytesMax.
Task<Result<Action>> read_action(http::Exchange& exchange);

}  // namespace tarn::proxy
