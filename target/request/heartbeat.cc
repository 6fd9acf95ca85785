// The stream by which a proxy knows that this target lives: a line a second, and one at once when
// that changes. Its end, or its silence, makes the target a suspect. It runs on the loop of the
// lease, which no other work holds up. It reports the state of the loops and drives that do the
// work.

#include <nlohmann/json.hpp>

#include "common/base/event.h"
#include "common/cluster/state/rhythm.h"
#include "common/http/loop_watch.h"
#include "target/request/handlers.h"

namespace tarn::target {
namespace {

/// A loop that was not heard of for so long counts as hung, as a drive does.
constexpr auto kLoopSilenceMax = std::chrono::seconds(10);

/// Success if readers may be sent here. Not a question of the lease: without one a target serves
/// what it has, marked as stale, and refuses writes itself.
Status can_serve(const TargetNode& node) {
  if (node.leaving) return fail(Errc::unavailable, "it is about to end");
  if (http::longest_silence(node.loops) > kLoopSilenceMax)
    return fail(Errc::unavailable, "an event loop has been held up for {} s",
                kLoopSilenceMax.count());
  for (const auto& drive : node.store.drives())
    if (!drive->disabled() && drive->usable()) return {};
  return fail(Errc::unavailable, "no drive is usable");
}

/// Digest and weight of each drive, there or not, by which names are placed. Between them its
/// readers and queued work (what is sent from memory costs it nothing); null: no reader is served
/// from there.
nlohmann::json work_of_drives(const TargetNode& node) {
  auto out = nlohmann::json::array();
  for (const auto& [candidate, drive] : node.store.placed_drives()) {
    nlohmann::json work;
    if (drive != nullptr && drive->in_service() && drive->not_overloaded())
      work = drive->queued() + drive->turns().streams() + drive->turns().waiting();
    out.push_back({candidate.digest, std::move(work), candidate.weight});
  }
  return out;
}

}  // namespace

Task<Status> heartbeat(TargetNode& node, http::Request& request) {
  request.exchange.close_after();  // only this comes by a connection to the lease's loop
  CO_TRY_OK(co_await request.exchange.begin(http::Response(200, "application/x-ndjson", ""),
                                            std::nullopt));
  using SteadyClock = std::chrono::steady_clock;
  EventListener listener(*node.readiness_changed, co_await asio::this_coro::executor);
  bool said = false;
  SteadyClock::time_point
      due{};  // by the clock: a process that was stopped is late as soon as it goes on
  while (true) {
    const Status ready = can_serve(node);
    if (const auto now = SteadyClock::now(); now >= due || ready.has_value() != said) {
      due = next_tick(cluster::kHeartbeatEvery);
      const auto state = node.view.state();
      said = ready.has_value();
      nlohmann::json line{{"ready", said},
                          {"map", state->map.version},
                          {"bmd", state->bmd.version},
                          {"drives", work_of_drives(node)}};
      if (!ready) line["why"] = ready.error().message;
      CO_TRY_OK(co_await request.exchange.write(line.dump() + "\n"));
    }
    if (!co_await request.exchange.pause_until(due, listener)) break;
  }
  co_return co_await request.exchange.finish();
}

Task<Status> tell_readiness(TargetNode& node, http::Request& request) {
  CO_TRY_OK(can_serve(node));
  co_return co_await request.exchange.respond(http::Response(200, http::kText, "ready\n"));
}

}  // namespace tarn::target
