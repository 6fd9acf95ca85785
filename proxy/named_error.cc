#include "proxy/named_error.h"

#include "common/api/status.h"

namespace tarn::proxy {

http::Response named_error(const Services& services, const http::Request& request,
                           const Error& error, std::string_view tcode) {
  const std::string node = "p[" + services.node_id() + "]";
  const api::ErrorScene scene{request.head().method_text, request.head().target,
                              request.exchange.remote_address(), node, tcode};
  const std::string body = api::error_json(error, scene);
  http::Response response(api::http_status(error.code), http::kErrorJson, body + "\n");
  response.set("X-Content-Type-Options", "nosniff");
  if (request.head().method == http::Method::head) response.set("Hdr-Error", body);
  return response;
}

Task<Status> refuse_as(const Services& services, http::Request& request, Error error,
                       std::string_view tcode) {
  const Status sent =
      co_await request.exchange.respond(named_error(services, request, error, tcode));
  co_return sent;
}

}  // namespace tarn::proxy
