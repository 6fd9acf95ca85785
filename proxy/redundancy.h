#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/services.h"

namespace tarn::proxy {

/// GET /v1/cluster?what=redundancy[&bucket=NAME]: how many objects of each bucket, or of one, have
/// how many copies, counted now in the indexes of all targets that answer:
/// {"buckets":[{"name","provider","copies","full","reduced","at_risk","lost","by_copies",
/// "drives_away","targets_away":["ID"],"complete":false}],"complete":false}. `complete` is false as
/// soon as a target or drive is away that may hold something which is not counted.
Task<Result<http::Response>> answer_redundancy(const Services& services,
                                               const http::Request& request);

}  // namespace tarn::proxy
