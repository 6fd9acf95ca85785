#pragma once

#include <vector>

#include "common/http/router.h"
#include "target/drives/drive_admin.h"
#include "target/node/node.h"

namespace tarn::target {

/// AIStore's PUT, POST and DELETE of /v1/daemon/mountpaths, with the path as the message's value:
/// attach-mp, enable-mp, disable-mp, rescan-mp, fshc-mp, detach-mp. Answers 200 without a body, 404
/// `ErrMpathNotFound` for a path that is no drive of this target. For the internal listener. Both
/// must outlive the routes.
[[nodiscard]] std::vector<http::Route> mountpath_routes(TargetNode& node, DriveAdmin& admin);

}  // namespace tarn::target
