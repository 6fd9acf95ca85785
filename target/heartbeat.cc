// The stream by which a proxy knows that this target lives: a line a second, through the event loop
// and the drives' queues. Its end, or its silence, makes the target a suspect.

#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "target/node.h"

namespace tarn::target {
namespace {

constexpr auto kBeat = std::chrono::seconds(1);

}  // namespace

Task<Status> heartbeat(TargetNode& node, http::Request& request) {
  CO_TRY_OK(co_await request.exchange.begin(http::Response(200, "application/x-ndjson", ""),
                                            std::nullopt));
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (!request.exchange.closing()) {
    const auto state = node.view.state();
    const Status ready = readiness(node);
    nlohmann::json line{
        {"ready", ready.has_value()}, {"map", state->map.version}, {"bmd", state->bmd.version}};
    if (!ready) line["why"] = ready.error().message;
    CO_TRY_OK(co_await request.exchange.write(line.dump() + "\n"));
    timer.expires_after(kBeat);
    const auto [ec] = co_await timer.async_wait(kTuple);
    if (ec) break;
  }
  co_return co_await request.exchange.finish();
}

}  // namespace tarn::target
