#include "proxy/core/action.h"

namespace tarn::proxy {

Task<Result<Action>> read_action(http::Exchange& exchange, std::size_t bytes_max) {
  CO_TRY(const std::string body, co_await exchange.read_all(bytes_max));
  co_return parse_action(body);
}

}  // namespace tarn::proxy
