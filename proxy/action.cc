#include "proxy/action.h"

namespace tarn::proxy {

Task<Result<Action>> read_action(http::Exchange& exchange) {
  CO_TRY(const std::string body, co_await exchange.read_all(Action::kBytesMax));
  co_return parse_action(body);
}

}  // namespace tarn::proxy
