#pragma once

#include <string>

#include "common/http/server.h"
#include "common/obs/metrics.h"

namespace tarn::http {

/// An Observer that counts the requests of one listener as
/// tarn_http_requests_total{listener,method,status}, their time as the histogram
/// tarn_http_request_seconds{listener,method}, and logs each at level debug:
/// `request done req= method= path= status= bytes= ms=`. Failures of ours (500) are logged as
/// errors, other 5xx as warnings, at most one a second. Queries are left out: they hold signatures.
/// `metrics` must outlive the listener.
[[nodiscard]] Observer observe_requests(obs::Metrics& metrics, std::string listener);

/// Exports tarn_http_connections and tarn_http_body_bytes_received_total of a listener. `server`
/// must outlive the last scrape.
void export_server(obs::Metrics& metrics, const std::string& listener, const Server& server);

}  // namespace tarn::http
