#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// GET /v1/cluster?what=safe_to_stop&node=ID[,ID..], Tarn's own: StopAnswer (stop_rules.h) for
/// these nodes, all at once. Counts the objects of buckets with redundancy only if there is no
/// other reason, since that reads the indexes of all targets. invalid_argument without an id; an
/// unknown one is answered with 404 `errNodeNotFound`.
Task<Result<http::Response>> answer_safe_to_stop(const Services& services,
                                                 const http::Request& request);

}  // namespace tarn::proxy
