#pragma once

#include <vector>

#include "common/cluster/store/meta_store.h"
#include "common/http/router.h"

namespace tarn::proxy {

/// The routes under which a proxy serves the embedded store to the other nodes: etcd's v3 HTTP
/// gateway as far as Tarn uses it (gateway_json.h). For the internal listener, inside
/// http::authenticated(). Callers on another machine are refused, with a sentence that names etcd.
/// `store` must outlive the routes.
///
/// A watch is a chunked answer that stays open, one JSON object a line. It ends when the store ends
/// its watches, when the client goes away, or when too many events pile up for a slow client;
/// clients then read everything again. Every few seconds a line shows that we are there.
[[nodiscard]] std::vector<http::Route> meta_gateway_routes(cluster::MetaStore& store);

}  // namespace tarn::proxy
