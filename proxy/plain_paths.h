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

/// The same if no wait is needed: redirect_at_once. False: no step has been taken.
using InstantObjectHandler = bool (*)(const Services&, http::Request&, std::string_view bucket,
                                      std::string_view object);

/// Paths as people write them, without /v1.

/// /<name>: the bucket of that name if there is one, else the object of that name in the default
/// bucket. For a bucket, GET and HEAD are sent on to /<name>/; all else is a conflict.
Task<Status> serve_one_segment(const Services& services, ObjectHandler object,
                               http::Request& request, std::string name);
/// True if the text after a bucket's slash names an object: no page, and not the bucket itself.
[[nodiscard]] bool names_object(std::string_view rest);
/// /ais/<bucket>/<object>: AIStore's easy URL of the object; without text after the slash the same
/// as /v1/buckets/<bucket>.
Task<Status> serve_easy_path(const Services& services, ObjectHandler object, http::Request& request,
                             std::string bucket, std::string rest);
/// /<bucket>/<object>: the object. Without a text after the bucket, or with a '/' at the end: a
/// page for GET and HEAD.
Task<Status> serve_plain_path(const Services& services, ObjectHandler object,
                              http::Request& request, std::string bucket, std::string rest);

}  // namespace tarn::proxy
