#pragma once

#include <cstdint>

#include "common/base/error.h"
#include "common/http/message.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// Greatest age of this proxy's knowledge, in seconds: 0 with a lease. unavailable as below.
Result<std::int64_t> stale_seconds(const Services& services, const http::RequestHead& head);
/// Marks an answer to a read that this proxy sends without a lease with the greatest age of its
/// knowledge: `Tarn-Stale: <seconds>`. unavailable when the client does not want such an answer
/// (`Cache-Control: no-cache`).
Status mark_staleness(const Services& services, const http::RequestHead& head,
                      http::Response& response);

}  // namespace tarn::proxy
