#pragma once

#include <string>
#include <string_view>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// Serves a request for one object: redirect_object or relay_object.
using ObjectHandler = Task<Status> (*)(const Services&, http::Request&, std::string bucket,
                                       std::string object);

/// The same where nothing has to be waited for: redirect_at_once. False: nothing has been done.
using InstantObjectHandler = bool (*)(const Services&, http::Request&, std::string_view bucket,
                                      std::string_view object);

/// Paths as people write them, without /v1.

/// /<name>: the bucket of that name if there is one, else the object of that name in the default
/// bucket. For a bucket, GET and HEAD are sent on to /<name>/; everything else is a conflict.
Task<Status> serve_one_segment(const Services& services, ObjectHandler object,
                               http::Request& request, std::string name);
/// True if what follows a bucket's slash names an object: no page, and not the bucket itself.
[[nodiscard]] bool names_object(std::string_view rest);
/// /ais/<bucket>/<object>: AIStore's easy URL of the object; with nothing after the slash the same
/// as /v1/buckets/<bucket>.
Task<Status> serve_easy_path(const Services& services, ObjectHandler object, http::Request& request,
                             std::string bucket, std::string rest);
/// /<bucket>/<object>: the object. With nothing after the bucket, or a '/' at the end: a page for
/// GET and HEAD.
Task<Status> serve_plain_path(const Services& services, ObjectHandler object,
                              http::Request& request, std::string bucket, std::string rest);

}  // namespace tarn::proxy
