#pragma once

#include <vector>

#include "common/http/router.h"
#include "proxy/core/services.h"
#include "proxy/plain_paths.h"

namespace tarn::proxy {

/// The table of the public listener and of the relay, which differ in one thing: `object` redirects
/// on the one and relays on the other. `at_once` is tried before `object` and may be null. The
/// node's own paths (health, metrics) are to be put in front.
[[nodiscard]] std::vector<http::Route> client_routes(const Services& services, ObjectHandler object,
                                                     InstantObjectHandler at_once);

}  // namespace tarn::proxy
