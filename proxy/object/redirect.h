#pragma once

#include <string>
#include <string_view>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// Answers a request for an object at the redirecting listener: it is sent to the target that owns
/// the name, with a signed URL. GET and HEAD by 302, all else by 307, decided from the request's
/// head alone: no byte of a body is read, and no `100 Continue` sent.
Task<Status> redirect_object(const Services& services, http::Request& request, std::string bucket,
                             std::string object);

/// The same if that needs no call and ends in no error: almost always. False: no step has been
/// taken.
[[nodiscard]] bool redirect_at_once(const Services& services, http::Request& request,
                                    std::string_view bucket, std::string_view object);

}  // namespace tarn::proxy
