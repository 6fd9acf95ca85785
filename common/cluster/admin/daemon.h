#pragma once

#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/api/request_path.h"
#include "common/cluster/admin/node_routes.h"
#include "common/http/message.h"

namespace tarn::cluster {

/// A JSON answer of ours: one line with a newline at its end.
[[nodiscard]] http::Response json_response(const nlohmann::json& value);

/// The answer to /v1/daemon?what=... for the node itself: smap, bmd, snode, config, node_stats,
/// node_status, sysinfo, metrics, log (severity=, offset=, all=), mountpaths, disk,
/// software_version, tls_certificate, remote. invalid_argument, naming these, for another word and
/// for those that only a target has; not_found for the certificate of a node without TLS.
[[nodiscard]] Result<http::Response> answer_daemon(const NodeContext& context,
                                                   const api::Query& query);

/// The JSON of what=node_stats (a part of it: `whole` false) and node_status.
[[nodiscard]] nlohmann::json node_status_json(const NodeContext& context, bool whole);

}  // namespace tarn::cluster
