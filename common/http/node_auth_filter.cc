#include "common/http/node_auth_filter.h"

#include <utility>

namespace tarn::http {
namespace {

Task<Status> check_and_serve(const security::NodeAuth& auth, const Handler& handler,
                             Exchange& exchange) {
  const RequestHead& head = exchange.head();
  const auto caller =
      auth.verify(head.field(security::NodeAuth::kHeader), head.method_text, head.target);
  if (!caller) {
    exchange.close_after();
    co_return fail(caller.error());
  }
  exchange.allow_pauses();
  co_return co_await handler(exchange);
}

}  // namespace

Handler authenticated(const security::NodeAuth& auth, Handler handler) {
  return [&auth, handler = std::move(handler)](Exchange& exchange) {
    return check_and_serve(auth, handler, exchange);
  };
}

}  // namespace tarn::http
