#pragma once

#include "common/api/action.h"
#include "common/base/async.h"
#include "common/http/exchange.h"

namespace tarn::proxy {

using api::Action;
using api::parse_action;

/// Reads the body, of at most `bytes_max`.
Task<Result<Action>> read_action(http::Exchange& exchange,
                                 std::size_t bytes_max = Action::kBytesMax);

}  // namespace tarn::proxy
