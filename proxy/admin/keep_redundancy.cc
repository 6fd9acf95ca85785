#include "proxy/admin/keep_redundancy.h"

#include <algorithm>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>
#include <prometheus/text_serializer.h>

#include "common/base/event.h"
#include "common/base/pause.h"
#include "common/base/resume.h"
#include "common/obs/log.h"
#include "proxy/admin/redundancy_count.h"
#include "proxy/core/leads.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/scrub_ages.h"
#include "proxy/jobs/scrub_job.h"

namespace tarn::proxy {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kKeepRedundancyLookEvery = 500ms;
/// Longest wait of a new leader for its first count: no other proxy shows one meanwhile.
constexpr std::chrono::nanoseconds kFirstAfter = 5s;
constexpr unsigned kRests = 3;

/// False if the round must not go on.
Task<bool> may_go_on(const Services& services) {
  if (co_await is_cancelled()) co_return false;
  co_return leads(services, *services.view.state());
}

Task<void> count_all(const Services& services, RedundancyBoard& board,
                     std::chrono::nanoseconds interval) {
  board.round_begins(services.clock.boot_time(), interval);
  const auto state = services.view.state();
  const nlohmann::json scrubs = co_await scrubs_told(services);
  const std::int64_t wall = services.clock.wall_time().count();
  for (const auto& [name, bucket] : state->bmd.buckets) {
    if (!co_await may_go_on(services)) co_return;
    const auto began = services.clock.boot_time();
    auto counted = co_await count_redundancy(services, state, bucket.id, {.rests = kRests});
    if (counted) {
      board.put(bucket.id, {std::move(*counted), began, unverified_since(scrubs, bucket.id, wall)});
      continue;
    }
    board.drop(bucket.id);
    const Errc why = counted.error().code;
    if (why != Errc::bucket_not_found && why != Errc::cancelled)
      obs::log("proxy").warn("redundancy not counted bucket={} err={}", name.display(),
                             counted.error().message);
  }
  board.round_ends(services.clock.boot_time());
}

}  // namespace

Task<void> keep_redundancy(const Services& services, RedundancyBoard& board,
                           const std::atomic<std::chrono::milliseconds>& interval) {
  co_await asio::this_coro::throw_if_cancelled(false);
  bool led = false;
  BootTime last{};  // a round ended, or this proxy began to lead
  std::chrono::nanoseconds wait{};
  while (!co_await is_cancelled()) {
    const bool lead = leads(services, *services.view.state());
    if (!lead) board.clear();
    if (!led) {
      last = services.clock.boot_time();
      wait = kFirstAfter;
    }
    led = lead;
    if (lead && services.clock.boot_time() - last >=
                    std::min(wait, std::chrono::nanoseconds(interval.load()))) {
      co_await count_all(services, board, interval.load());
      last = services.clock.boot_time();
      wait = std::chrono::nanoseconds::max();
    }
    co_await pause_until(next_tick(kKeepRedundancyLookEvery));
  }
}

namespace {

Task<Status> send_metrics(const Services& services, const RedundancyBoard& board,
                          http::Request& request) {
  std::string text = services.node.metrics.text();
  const auto state = services.view.state();
  if (leads(services, *state))
    text += prometheus::TextSerializer().Serialize(
        board.gauges(*state, services.clock.boot_time(), services.clock.wall_time()));
  co_return co_await request.exchange.respond(
      http::Response(200, obs::Metrics::kContentType, std::move(text)));
}

}  // namespace

http::Route metrics_route(const Services& services, const RedundancyBoard& board) {
  auto answer = [&services, &board](http::Request& request) {
    return send_metrics(services, board, request);
  };
  return {"GET HEAD", "/metrics", "metrics in Prometheus' text format", std::move(answer)};
}

}  // namespace tarn::proxy
