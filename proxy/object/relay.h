#pragma once

#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// Serves a request for an object at the relay listener, and at the redirecting one if a redirect
/// is not safe (is_safe_to_redirect). The proxy makes its own request to the owner of the name,
/// with a signed URL and only the header fields that a list names. It passes both bodies through
/// one buffer of 256 KiB. `100 Continue` is sent to the client when the target sends it; an answer
/// that the target sends before the body has ended is passed on at once. A target that dies in the
/// middle of an answer: the client's connection is cut.
Task<Status> relay_object(const Services& services, http::Request& request, std::string bucket,
                          std::string object);

}  // namespace tarn::proxy
