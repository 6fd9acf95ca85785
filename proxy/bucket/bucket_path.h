#pragma once

#include "common/api/bucket.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// Checks, before a bucket gets this name, that no object has its path (one_meaning.h): conflict
/// when one has. Passes, with a line in the log, when the object cannot be looked for.
Task<Status> check_path_is_no_object(const Services& services, const api::Bucket& name);

}  // namespace tarn::proxy
