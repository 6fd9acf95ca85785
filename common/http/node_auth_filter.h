#pragma once

#include "common/http/server.h"
#include "common/security/node_auth.h"

namespace tarn::http {

/// Handler that first checks that the caller is a node of this cluster: for internal listeners.
/// Other callers get 401 and their body is not read. `auth` must outlive the listener.
[[nodiscard]] Handler authenticated(const security::NodeAuth& auth, Handler handler);

}  // namespace tarn::http
