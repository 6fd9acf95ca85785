#pragma once

#include "common/api/list_merge.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/assign.h"
#include "proxy/list_request.h"
#include "proxy/services.h"

namespace tarn::proxy {

/// One page of a bucket, merged from all targets that may hold its objects. Every one of them has
/// answered: else it is unavailable, never a short list. bucket_not_found when it was destroyed
/// meanwhile, not_found for a target that is none.
Task<Result<api::MergedPage>> list_entries(const Services& services, KnownBucket bucket,
                                           const ListRequest& request);

}  // namespace tarn::proxy
