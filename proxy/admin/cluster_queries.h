#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// GET /v1/cluster?what=...: state and work of the whole cluster: smap, bmd, snode, cluster_config,
/// node_stats, sysinfo, mountpaths, remote, backends, target_ips, and of jobs status, status_all,
/// running_all, qryxstats; Tarn's own are in docs/api.md. A node that does not answer makes it an
/// error: an answer is never short.
Task<Status> query_cluster(const Services& services, http::Request& request);

/// GET /v1/reverse/daemon with Ais-Node-Id: that node's answer to /v1/daemon. not_found for an id
/// that no node has.
Task<Status> query_node(const Services& services, http::Request& request);

/// GET /v1/download and GET /v1/sort, which AIStore's clients ask for the list of all jobs: there
/// are none of these, so [], and not_found for an id. Other methods are unsupported.
Task<Status> list_absent_jobs(const Services& services, http::Request& request);

}  // namespace tarn::proxy
