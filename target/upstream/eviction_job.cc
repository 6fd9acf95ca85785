// A target's part of the job lru: an eviction from each of its drives.

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"
#include "target/job/drive_job.h"
#include "target/upstream/space.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::size_t kEvictionOrderBytesMax = 64U << 10U;

struct JobOrder {
  std::string job;
  SpaceKeeper::Order what;
};

Result<JobOrder> eviction_order_in(const std::string& body) {
  return read_json(Errc::invalid_argument, "order of an eviction", [&]() -> Result<JobOrder> {
    const json in = json::parse(body);
    JobOrder out{in.at("job").get<std::string>(), {}};
    for (const auto id : in.at("buckets").get<std::vector<std::uint64_t>>())
      out.what.only.insert(BucketId{id});
    out.what.ignore_switch = in.value("force", false);
    return out;
  });
}

}  // namespace

Task<Status> start_eviction(TargetNode& node, SpaceKeeper& keeper, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kEvictionOrderBytesMax));
  CO_TRY(const JobOrder order, eviction_order_in(body));
  const auto evict = [&keeper, &order](Drive& drive, api::CopyProgress& progress,
                                       const std::stop_token& stop) {
    return keeper.evict(drive, order.what, progress, stop);
  };
  DriveJob job(node, "eviction job=" + order.job, evict, co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, order.job, job);
}

std::vector<http::Route> space_routes(TargetNode& node, SpaceKeeper& keeper) {
  return {
      {"POST", "/v1/internal/evict", "evict down to the low watermark; a line on progress",
       [&node, &keeper](http::Request& request) { return start_eviction(node, keeper, request); }},
      {"DELETE", "/v1/internal/evict", "stop that",
       [&node](http::Request& request) { return stop_job(node, request); }}};
}

}  // namespace tarn::target
