#pragma once

#include <string_view>

#include "common/base/error.h"
#include "common/http/exchange.h"

namespace tarn::http {

/// The answer that stands for `error`: status line, AIStore's JSON with the same status, its tcode
/// and this node, and for HEAD the JSON in `Hdr-Error`. The one place where error answers are made,
/// so that their parts agree. `tcode`: instead of the one that the error's code has.
[[nodiscard]] Response error_response(const Exchange& exchange, const Error& error,
                                      std::string_view tcode = {});

}  // namespace tarn::http
