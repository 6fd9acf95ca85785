#include "common/http/error_response.h"

#include <string>

#include "common/api/status.h"

namespace tarn::http {

Response error_response(const Exchange& exchange, const Error& error, std::string_view tcode) {
  const RequestHead& head = exchange.head();
  const bool is_head = head.method == Method::head;
  const api::ErrorScene scene{head.method_text, head.target, exchange.remote_address(),
                              exchange.node(), tcode};
  const std::string text = api::error_json(error, scene);
  Response response(api::http_status(error.code), kErrorJson, is_head ? "" : text + "\n");
  response.set("X-Content-Type-Options", "nosniff");
  if (response.status == 503) response.set("Retry-After", "1");
  if (is_head) response.set("Hdr-Error", text);
  return response;
}

}  // namespace tarn::http
