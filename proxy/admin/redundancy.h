#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/message.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// GET /v1/cluster?what=redundancy[&bucket=..][&lost_after=..], Tarn's own: numbers of copies and
/// slices of the objects of each bucket, counted from the indexes of all targets. Also the time at
/// which all of it was last read, the lost objects, and the reasons why damaged ones are not whole
/// again. Targets that do not answer are left out, and named. With `bucket`, `list=STATE` and
/// `after` a page of the names of the objects in that state (api::ObjectState) instead of numbers.
Task<Result<http::Response>> answer_redundancy(const Services& services,
                                               const http::Request& request);

}  // namespace tarn::proxy
