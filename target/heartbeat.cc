// The stream by which a proxy knows that this target lives: a line a second, through the event loop
// and the drives' queues. Its end, or its silence, makes the target a suspect.

#include <nlohmann/json.hpp>

#include "target/node.h"

namespace tarn::target {
namespace {

constexpr auto kBeat = std::chrono::seconds(1);

/// Whether readers may be sent here. Not a question of the lease: without one a target serves what
/// it has, marked as stale, and refuses writes itself.
Status can_serve(const TargetNode& node) {
  for (const auto& drive : node.store.drives())
    if (!drive->disabled() && drive->usable()) return {};
  return fail(Errc::unavailable, "no drive is usable");
}

}  // namespace

Task<Status> heartbeat(TargetNode& node, http::Request& request) {
  CO_TRY_OK(co_await request.exchange.begin(http::Response(200, "application/x-ndjson", ""),
                                            std::nullopt));
  while (true) {
    const auto state = node.view.state();
    const Status ready = can_serve(node);
    nlohmann::json line{
        {"ready", ready.has_value()}, {"map", state->map.version}, {"bmd", state->bmd.version}};
    if (!ready) line["why"] = ready.error().message;
    CO_TRY_OK(co_await request.exchange.write(line.dump() + "\n"));
    // Whoever stops this target does not wait for the next beat.
    if (!co_await request.exchange.pause(kBeat)) break;
  }
  co_return co_await request.exchange.finish();
}

}  // namespace tarn::target
