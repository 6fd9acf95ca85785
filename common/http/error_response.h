#pragma once

#include <string_view>

#include "common/base/error.h"
#include "common/http/exchange.h"

namespace tarn::http {

/// Builds the answer for `error`: status line, AIStore's JSON with the same status, its tcode and
/// this node; for HEAD the JSON is in `Hdr-Error`. All error answers are built here, so that their
/// parts agree. `tcode` replaces the one of the error's code.
[[nodiscard]] Response error_response(const Exchange& exchange, const Error& error,
                                      std::string_view tcode = {});

}  // namespace tarn::http
