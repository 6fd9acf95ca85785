#include "common/base/pause.h"

#include <cstdint>

#include <boost/asio/steady_timer.hpp>

#include "common/base/random.h"

namespace tarn {

Task<void> pause(std::chrono::nanoseconds time) {
  co_await pause_until(std::chrono::steady_clock::now() + time);
}

Task<void> pause_until(std::chrono::steady_clock::time_point when) {
  asio::steady_timer timer(co_await asio::this_coro::executor, when);
  static_cast<void>(co_await timer.async_wait(kTuple));
}

Task<void> pause_up_to(std::chrono::milliseconds most) {
  co_await pause(
      std::chrono::milliseconds(1 + random_u64() % static_cast<std::uint64_t>(most.count())));
}

}  // namespace tarn
