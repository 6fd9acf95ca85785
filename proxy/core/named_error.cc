#include "proxy/core/named_error.h"

#include "common/http/error_response.h"

namespace tarn::proxy {

Task<Status> refuse_as(http::Request& request, Error error, std::string_view tcode) {
  const Status sent =
      co_await request.exchange.respond(http::error_response(request.exchange, error, tcode));
  co_return sent;
}

}  // namespace tarn::proxy
